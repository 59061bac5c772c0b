#!/usr/bin/python3
"""psql of PostgreSQL 15 to 18 through the proxy: the same session as straight at the server."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import PG_BIN, equal  # noqa: E402
from cluster import eventually  # noqa: E402
from real_clients import CLIENTS, Stack, compare, environment, run  # noqa: E402

TIMEOUT = 180
STACK = None


def setup():
	global STACK
	STACK = Stack()


def teardown():
	STACK.close()


def _bin(version):
	if version == 15:
		return PG_BIN
	fetch = os.path.join(CLIENTS, 'fetch-psql')
	done = subprocess.run([fetch, str(version)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
		text=True)
	assert done.returncode == 0, done.stderr
	return os.path.join(done.stdout.strip(), 'bin')


def _normalise(text):
	# Source lines of the server's own code depend on its build, and sizes on what ran before.
	return re.sub(r'\b\d+ (kB|bytes)\b', 'SIZE', text)


def _session(version, *scripts):
	psql = [os.path.join(_bin(version), 'psql'), '-X', '-a']
	for script in scripts:
		psql += ['-f', os.path.join(CLIENTS, script)]
	text = compare(STACK, psql, 'psql %s' % version, normalise=_normalise,
		clean='drop schema if exists shop cascade')
	assert 'connection to server was lost' not in text, text
	return text


def test_psql_15():
	assert 'branch taken' in _session(15, 'psql.sql')


def test_psql_15_with_the_protocol_library_of_16():
	_session(16, 'psql.sql')


def test_psql_17():
	text = _session(17, 'psql.sql', 'psql16.sql')
	assert 'parameter $1' in text or 'nowhere' in text, text


def test_psql_18():
	text = _session(18, 'psql.sql', 'psql16.sql', 'psql18.sql')
	for word in ('42', '72', 'after', 'division by zero'):
		assert word in text, '%r is not in\n%s' % (word, text[-3000:])


def test_psql_18_with_protocol_3_2():
	text = run([os.path.join(_bin(18), 'psql'), '-XAt', '-c', 'select 1', '-c', r'\conninfo'],
		STACK.through, PGMAXPROTOCOLVERSION='3.2', PGMINPROTOCOLVERSION='3.0')
	assert text.startswith('1\n'), text


def _sleep_runs():
	return any(node.scalar("select count(*) from pg_stat_activity where state = 'active'"
		" and query like 'select pg_sleep%'") != '0' for node in STACK.cluster.nodes)


def test_cancel_from_the_keyboard():
	for version in (15, 17, 18):
		argv = [os.path.join(_bin(version), 'psql'), '-XAt', '-c', 'select pg_sleep(30)']
		proc = subprocess.Popen(argv, env=environment(STACK.through), stdout=subprocess.PIPE,
			stderr=subprocess.STDOUT, text=True)
		try:
			eventually(_sleep_runs, 20, 'the sleep runs')
			# The loader in front of a fetched psql hands the signal on: it is the same process.
			proc.send_signal(2)
			output = proc.communicate(timeout=10)[0]
		finally:
			proc.kill()
		assert 'canceling statement due to user request' in output, output


def test_notifications_between_two_sessions():
	def talk(address):
		script = ('listen news;\nnotify news, \'own\';\nselect 1;\n'
			'\\! PGAPPNAME=other %s -X -c "notify news, \'from outside\'"\nselect 2;\nunlisten news;\n'
			'notify news, \'nobody hears\';\nselect 3;\n' % os.path.join(PG_BIN, 'psql'))
		text = run([os.path.join(PG_BIN, 'psql'), '-X'], address, stdin=script)
		return re.sub(r'PID \d+', 'PID n', text)

	wanted = talk(STACK.direct)
	assert wanted.count('Asynchronous notification') == 2, wanted
	equal(talk(STACK.through), wanted, 'what psql printed')


runner.main(globals())
