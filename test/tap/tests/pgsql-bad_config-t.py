#!/usr/bin/python3
"""A configuration that is wrong in any way: no start, exit code 1, and a message with file and
line."""
import re
import socket
import subprocess
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal  # noqa: E402
from cluster import Proxy  # noqa: E402
from cluster.proxy import binary, render  # noqa: E402
from cluster.workspace import Workspace  # noqa: E402

WORK = None


def setup():
	global WORK
	WORK = Workspace()


def teardown():
	WORK.close()


def _good():
	proxy = Proxy(start=False, directory=WORK.file('unused'), persistent=True, pair=None, servers=[
		{'address': '127.0.0.1', 'port': 5432, 'hostgroup': 10}])
	config = proxy.config()
	config['datadir'] = WORK.file('data')
	os.makedirs(config['datadir'], exist_ok=True)
	proxy.release()
	return config


def _run(text, arguments=('--initial',), seconds=10):
	"""(exit code or None while it still runs after the time, output)."""
	cnf = WORK.file('test.cnf')
	with open(cnf, 'w', encoding='utf-8') as f:
		f.write(text)
	proc = subprocess.Popen([binary(), '-f', '-c', cnf, '-D', WORK.file('data'), *arguments],
		stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
		start_new_session=True, cwd=WORK.path)
	WORK.note('bad', proc.pid)
	try:
		output, _ = proc.communicate(timeout=seconds)
		return proc.returncode, output
	except subprocess.TimeoutExpired:
		proc.kill()
		return None, proc.communicate()[0]


def _refused(text, word, line=None):
	code, output = _run(text)
	assert code == 1, 'exit code %s for:\n%s\n%s' % (code, text, output[-2000:])
	assert word in output, 'the message does not name %r:\n%s' % (word, output[-2000:])
	if line is not None:
		assert re.search(r'test\.cnf:%d\b|test\.cnf[^\n]*line %d\b' % (line, line), output), (
			'file and line %d are not named:\n%s' % (line, output[-2000:]))


def _line_of(text, part):
	for number, line in enumerate(text.splitlines(), 1):
		if part in line:
			return number
	raise AssertionError('%r is not in the file' % part)


def _with(change):
	config = _good()
	change(config)
	return render(config)


def _row_refused(section, row, word):
	"""A wrong row, after a good one, is refused with the line it stands on."""
	config = _good()
	config[section] = list(config.get(section, [])) + [row]
	text = render(config)
	last = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith('\t{ ')]
	wanted = [n for n in last if all(str(v) in text.splitlines()[n - 1] for v in row.values())][-1]
	_refused(text, word, wanted)


def test_the_good_one_starts():
	code, output = _run(render(_good()), seconds=2)
	equal(code, None, output)


def test_missing_file():
	run = subprocess.run([binary(), '-f', '-c', WORK.file('no-such.cnf'), '-D', WORK.file('data')],
		stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=10)
	assert run.returncode == 1 and 'no-such.cnf' in run.stdout, (run.returncode, run.stdout)


def test_syntax_errors_name_the_line():
	good = render(_good())
	_refused(good + '\npgsql_servers2 = ( { a = ; } )\n', 'test.cnf', len(good.splitlines()) + 2)
	_refused(good + '\nfoo = "unterminated\n', 'test.cnf')
	_refused(good + '\n}\n', 'test.cnf', len(good.splitlines()) + 2)


def test_unknown_variable():
	text = _with(lambda c: c['pgsql_variables'].update(thraeds=4))
	_refused(text, 'thraeds', _line_of(text, 'thraeds'))


def test_variable_out_of_range_or_of_wrong_type():
	for name, value in (('threads', 0), ('threads', 1000), ('threads', 'many'),
			('max_connections', -5),
			('have_ssl', 'perhaps'), ('authentication_method', 9), ('connect_timeout_server', 1)):
		text = _with(lambda c, n=name, v=value: c['pgsql_variables'].update({n: v}))
		_refused(text, name, _line_of(text, '\t%s = ' % name))


def test_unknown_admin_variable():
	text = _with(lambda c: c['admin_variables'].update(admin_credentails='x:y'))
	_refused(text, 'admin_credentails', _line_of(text, 'admin_credentails'))


def test_bad_listening_addresses():
	for value in ('127.0.0.1:99999', 'nonsense', '300.1.1.1:5000', '127.0.0.1:abc'):
		text = _with(lambda c, v=value: c['pgsql_variables'].update(interfaces=v))
		_refused(text, value)


def test_port_in_use():
	with socket.socket() as other:
		other.bind(('127.0.0.1', 0))
		other.listen(1)
		port = other.getsockname()[1]
		for section, name in (('pgsql_variables', 'interfaces'),
				('admin_variables', 'pgsql_ifaces')):
			text = _with(lambda c, s=section, n=name: c[s].update({n: '127.0.0.1:%d' % port}))
			_refused(text, str(port))


def test_server_rows():
	good = {'address': '127.0.0.9', 'port': 5432, 'hostgroup': 10}
	for change, word in (({'port': 70000}, 'port'), ({'port': 'x'}, 'port'),
			({'weight': -1}, 'weight'),
			({'status': 'SLEEPY'}, 'status'), ({'max_connections': -2}, 'max_connections'),
			({'wieght': 5}, 'wieght'), ({'hostgroup': -1}, 'hostgroup')):
		_row_refused('pgsql_servers', dict(good, **change), word)
	_row_refused('pgsql_servers', {'address': '127.0.0.9', 'port': 5432}, 'hostgroup')
	_row_refused('pgsql_servers', {'port': 5439, 'hostgroup': 1}, 'address')


def test_the_same_server_twice():
	config = _good()
	config['pgsql_servers'] = config['pgsql_servers'] * 2
	_refused(render(config), '5432')


def test_user_rows():
	_row_refused('pgsql_users', {'password': 'zzz'}, 'username')
	_row_refused('pgsql_users', {'username': 'zz', 'default_hostgroup': 'x'}, 'default_hostgroup')
	_row_refused('pgsql_users', {'username': 'zz', 'active': 5}, 'active')
	_row_refused('pgsql_users', {'username': 'zz', 'pasword': 'qq'}, 'pasword')
	_row_refused('pgsql_users', {'username': 'app', 'password': 'again'}, 'app')


def test_query_rule_rows():
	_row_refused('pgsql_query_rules', {'match_digest': 'zz'}, 'rule_id')
	_row_refused('pgsql_query_rules', {'rule_id': 71, 'match_pattern': '((('}, '71')
	_row_refused('pgsql_query_rules', {'rule_id': 72, 'destination_hostgroup': 'x'},
		'destination_hostgroup')
	_row_refused('pgsql_query_rules', {'rule_id': 73, 'mach_digest': 'x'}, 'mach_digest')


def test_replication_hostgroup_rows():
	good = {'writer_hostgroup': 71, 'reader_hostgroup': 72}
	for change, word in (({'reader_hostgroup': 71}, 'reader_hostgroup'),
			({'check_type': 'zz'}, 'check_type'),
			({'consistency_mode': 'zz'}, 'consistency_mode'),
			({'proxy_protocol': 'zz'}, 'proxy_protocol'),
			({'max_lag_bytes': -4}, 'max_lag_bytes'), ({'nope': 4}, 'nope')):
		_row_refused('pgsql_replication_hostgroups', dict(good, **change), word)
	_row_refused('pgsql_replication_hostgroups', {'writer_hostgroup': 71}, 'reader_hostgroup')


def test_nothing_is_left_of_a_refused_configuration():
	_refused(_with(lambda c: c['pgsql_variables'].update(thraeds=4)), 'thraeds')
	# Without --initial the same directory must not hold half of what was refused.
	code, output = _run(_with(lambda c: c['pgsql_variables'].update(thraeds=4)), arguments=())
	equal(code, 1, output)


def test_half_of_a_certificate_set():
	data = WORK.file('data')
	key = os.path.join(data, 'proxysql-key.pem')
	for name in ('proxysql-ca.pem', 'proxysql-cert.pem', 'proxysql-key.pem'):
		if os.path.exists(os.path.join(data, name)):
			os.unlink(os.path.join(data, name))
	with open(key, 'w', encoding='ascii') as f:
		f.write('not a key\n')
	try:
		_refused(render(_good()), 'pem')
	finally:
		os.unlink(key)


def test_data_directory_that_is_not_there():
	run = subprocess.run([binary(), '-f', '-c', WORK.file('test.cnf'), '-D',
		WORK.file('no/such/dir')],
		stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=10)
	assert run.returncode == 1 and 'no/such/dir' in run.stdout, (run.returncode, run.stdout)


def test_command_line():
	for arguments, code, word in ((['--version'], 0, 'version'), (['--help'], 0, '--initial'),
			(['--no-such-option'], 1, 'no-such-option')):
		run = subprocess.run([binary(), *arguments], stdout=subprocess.PIPE,
			stderr=subprocess.STDOUT,
			text=True, timeout=10)
		assert run.returncode == code and word in run.stdout, (arguments, run.returncode,
			run.stdout)


if __name__ == '__main__':
	runner.main(globals())
