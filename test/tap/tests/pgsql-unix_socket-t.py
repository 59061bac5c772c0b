#!/usr/bin/python3
"""Unix sockets: where clients connect, what happens to the file, what rules and tables show."""
import os
import signal
import socket
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, psql  # noqa: E402
from cluster import Cluster, Proxy, Wire, eventually, wire  # noqa: E402

CLUSTER = None


def setup():
	global CLUSTER
	CLUSTER = Cluster('stock', 1)


def teardown():
	CLUSTER.close()


def _folder(name):
	path = CLUSTER.work.file(name)
	os.makedirs(path, exist_ok=True)
	assert len(path) < 80, 'too long for a socket: ' + path
	return path


def _proxy(paths, name='unix', **more):
	"""A proxy that listens on TCP (for the start) and on the paths."""
	variables = dict(more.pop('variables', {}))
	proxy = Proxy(CLUSTER, name=name, start=False, **more)
	variables['interfaces'] = ';'.join(['127.0.0.1:%d' % proxy.port] + paths)
	proxy.given_variables = variables
	return proxy


def _answers(path):
	with wire.connect(path, 'app', 'app-secret', 'app') as session:
		equal(session.scalar('select 1'), '1')


def _refused_start(proxy):
	"""The log of a start that must fail."""
	try:
		proxy.start()
	except RuntimeError:
		code = proxy.proc.wait(10)
		assert code not in (0, None), code
		proxy.kill()
		return proxy.log()
	raise AssertionError('it started')


def test_psql_connects_by_folder_and_port_and_the_file_goes_at_the_end():
	folder = _folder('s1')
	paths = [folder + '/.s.PGSQL.6133', folder + '/other.sock']
	with _proxy(paths) as proxy:
		proxy.start()
		equal(psql((folder, 6133), 'select 7'), (0, '7'))
		_answers(paths[1])
		for path in paths:
			assert stat.S_ISSOCK(os.stat(path).st_mode)
			equal(stat.S_IMODE(os.stat(path).st_mode), 0o777, path)
		equal(psql((folder, 6133), 'select 7', password='wrong')[0], 2)
	equal(os.listdir(folder), [])


def test_permissions_are_as_configured_and_a_bad_value_is_refused():
	path = _folder('s2') + '/p.sock'
	with _proxy([path], variables={'unix_socket_permissions': '0700'}) as proxy:
		proxy.start()
		equal(stat.S_IMODE(os.stat(path).st_mode), 0o700)
	log = _refused_start(_proxy([path], variables={'unix_socket_permissions': '999'}))
	assert 'unix_socket_permissions' in log and 'octal' in log, log[-500:]


def test_a_file_left_by_a_crash_is_replaced():
	path = _folder('s3') + '/crash.sock'
	with _proxy([path]) as proxy:
		proxy.start()
		os.kill(proxy.proc.pid, signal.SIGKILL)
		proxy.proc.wait()
		assert os.path.exists(path), 'nothing was left behind'
		proxy.start()
		_answers(path)


def test_a_socket_in_use_is_left_alone():
	path = _folder('s4') + '/used.sock'
	with _proxy([path], name='first') as first:
		first.start()
		second = _proxy([path], name='second')
		log = _refused_start(second)
		assert 'another process listens there' in log and path in log, log[-500:]
		_answers(path)
	# The one that failed has not taken the file away with it; the one that ends has.
	assert not os.path.exists(path)


def test_a_file_that_is_no_socket_is_left_alone():
	folder = _folder('s5')
	path = folder + '/data'
	with open(path, 'w', encoding='ascii') as f:
		f.write('precious')
	log = _refused_start(_proxy([path]))
	assert 'no socket' in log and path in log, log[-500:]
	with open(path, encoding='ascii') as f:
		equal(f.read(), 'precious')
	link = folder + '/link'
	os.symlink(path, link)
	assert 'no socket' in _refused_start(_proxy([link]))
	equal(sorted(os.listdir(folder)), ['data', 'link'])
	log = _refused_start(_proxy([folder + '/missing/x.sock']))
	assert 'No such file or directory' in log, log[-500:]


def test_a_second_address_that_fails_takes_the_first_away():
	folder = _folder('s6')
	_refused_start(_proxy([folder + '/good.sock', folder + '/missing/x.sock']))
	equal(os.listdir(folder), [])


def test_the_file_of_another_process_is_not_removed_at_the_end():
	path = _folder('s7') + '/taken.sock'
	with _proxy([path]) as proxy:
		proxy.start()
		os.unlink(path)
		other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
		other.bind(path)
	assert os.path.exists(path), 'the file of another process is gone'
	other.close()
	os.unlink(path)


def test_stop_and_start_bind_again():
	path = _folder('s8') + '/again.sock'
	with _proxy([path]) as proxy:
		proxy.start()
		proxy.admin('proxysql stop')
		assert not os.path.exists(path)
		proxy.admin('proxysql start')
		_answers(path)


def test_clients_are_shown_as_localhost_and_matched_by_rules():
	path = _folder('s9') + '/rules.sock'
	by = {'match_digest': 'marked', 'apply': 1, 'active': 1, 'destination_hostgroup': 20}
	rules = [
		# No network holds a client without an address.
		dict(by, rule_id=1, client_addr='0.0.0.0/0,::/0', error_msg='matched a network',
			match_digest='network'),
		dict(by, rule_id=2, client_addr='localhost', error_msg='matched by name',
			match_digest='name'),
		dict(by, rule_id=3, proxy_addr=path, error_msg='matched by path', match_digest='path'),
		dict(by, rule_id=4, client_addr='%', error_msg='matched all', match_digest='all'),
	]
	with _proxy([path], rules=rules) as proxy:
		proxy.start()

		def outcome(session, word):
			try:
				session.sql('select 1 as %s' % word)
				return None
			except wire.WireError as e:
				return e.message
		with wire.connect(path, 'app', 'app-secret', 'app') as session:
			equal([outcome(session, w) for w in ('network', 'name', 'path', 'all')],
				[None, 'matched by name', 'matched by path', 'matched all'])
			rows = proxy.admin('select cli_host, cli_port from stats_pgsql_processlist'
				' where SessionID = %d' % session.pid).rows
			equal(rows, [('localhost', None)])
		with proxy.session() as session:
			equal([outcome(session, w) for w in ('network', 'name', 'path', 'all')],
				['matched a network', None, None, 'matched all'])
		with Wire(path) as session:
			try:
				session.login('nobody', 'wrong', 'app')
			except wire.WireError as e:
				assert "'nobody'@'localhost'" in e.message, e
			else:
				raise AssertionError('logged in')


def test_tls_is_declined_and_cancel_works():
	path = _folder('s10') + '/c.sock'
	with _proxy([path]) as proxy:
		proxy.start()
		with Wire(path) as session:
			session.send(wire.struct.pack('!II', 8, wire.SSL_REQUEST))
			equal(session.read_bytes(1), b'N')
			session.login('app', 'app-secret', 'app')
			session.send(wire.query("select 'mark-unix', pg_sleep(30)"))
			eventually(lambda: CLUSTER.primary.scalar("select count(*) from pg_stat_activity where"
				" query like '%mark-unix%' and state = 'active' and pid <> pg_backend_pid()") == '1'
				or CLUSTER.replicas[0].backends(user='app') > 0, what='query running')
			session.cancel()
			errors = [wire.error_fields(b)['C'] for k, b in session.read_ready() if k == 'E']
			equal(errors, ['57014'])


if __name__ == '__main__':
	runner.main(globals())
