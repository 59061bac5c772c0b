#!/usr/bin/python3
"""Every time limit, with its SQLSTATE and words, and what is left behind: no server connection held,
no transaction open. Limits are as short as the variables allow."""
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error  # noqa: E402
from cluster import Cluster, Proxy, eventually, wire  # noqa: E402
from cluster.wire import bind, copy_data, execute, flush, parse, query, sync  # noqa: E402

TIMEOUT = 60
CLUSTER = PROXY = None
OTHER = 30  # a hostgroup with a query timeout of its own
QUERY_TIMEOUT = 'Query execution was interrupted, query_timeout exceeded'


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 0)
	CLUSTER.primary.sql('create table t (i int, v text); grant all on t to app', 'app')
	port = CLUSTER.primary.port
	PROXY = Proxy(CLUSTER, pair=None, workers=1,
		servers=[{'address': '127.0.0.1', 'port': port, 'hostgroup': 10, 'max_connections': 1},
			{'address': '127.0.0.1', 'port': port, 'hostgroup': OTHER, 'max_connections': 1}],
		users=[{'username': 'app', 'password': 'app-secret', 'default_hostgroup': 10},
			{'username': 'app2', 'password': 'app2-secret', 'default_hostgroup': OTHER}],
		rules=[{'rule_id': 1, 'active': 1, 'match_pattern': 'rule_timeout', 'timeout': 300,
			'apply': 1}],
		variables={'connect_timeout_server_max': 1500})


def teardown():
	PROXY.stop()
	CLUSTER.close()


class variables:
	"""Sets variables for a block, and sets them back."""

	def __init__(self, **values):
		self.values = values

	def __enter__(self):
		self.before = {name: PROXY.admin_scalar("select variable_value from"
			" runtime_global_variables where variable_name = 'pgsql-%s'" % name)
			for name in self.values}
		self.load(self.values)

	def __exit__(self, *unused):
		self.load(self.before)

	@staticmethod
	def load(values):
		for name, value in values.items():
			PROXY.admin("set pgsql-%s = '%s'" % (name, value))
		PROXY.admin('load pgsql variables to runtime')


def told_before_the_end(session, timeout=8.0):
	"""(severity, sqlstate, message) of the error after which the proxy closes, and when it came."""
	start = time.monotonic()
	messages = session.read_all(timeout)
	took = time.monotonic() - start
	errors = [wire.error_fields(b) for k, b in messages if k == 'E']
	assert len(errors) == 1, messages
	return (errors[0]['V'], errors[0]['C'], errors[0]['M']), took


def server_is_free():
	"""The only server connection serves others again, and no transaction is left open."""
	with PROXY.session() as other:
		equal(other.scalar('select 1', timeout=3), '1')
		equal(other.scalar("select count(*) from pg_stat_activity where state like 'idle in%'"), '0')


def rows_with(value):
	return CLUSTER.primary.sql("select count(*) from t where v = '%s'" % value, 'app').scalar


def test_idle_session():
	session, pinned = PROXY.session(), PROXY.session()
	pinned.sql('create temp table held (i int)')
	with variables(wait_timeout=1000):
		for one in (session, pinned):
			told, took = told_before_the_end(one)
			equal(told, ('FATAL', '57P05', 'terminating connection due to idle-session timeout'))
			assert took < 4, took
	server_is_free()


def test_a_limit_set_later_reaches_sessions_that_idle_already():
	"""No session is looked at while it idles, so a load must look at all of them."""
	sessions = [PROXY.session() for _ in range(20)]
	sessions[0].sql('select 1')
	time.sleep(1.2)  # all are past their first look
	with variables(wait_timeout=1500):
		for session in sessions:
			equal(told_before_the_end(session)[0][1], '57P05')


def test_a_client_that_works_is_not_idle():
	with variables(wait_timeout=1000), PROXY.session() as session:
		for _ in range(8):
			equal(session.scalar('select 1 from pg_sleep(0.3)'), '1')
		equal(session.scalar('select 2 from pg_sleep(1.5)'), '2')


def test_idle_in_transaction():
	session = PROXY.session()
	session.sql("begin; insert into t values (1, 'idle in transaction')")
	with variables(max_transaction_idle_time=1000):
		told, took = told_before_the_end(session)
	equal(told, ('FATAL', '25P03', 'terminating connection due to idle-in-transaction timeout'))
	assert took < 4, took
	server_is_free()
	equal(rows_with('idle in transaction'), '0')


def test_idle_in_a_failed_transaction():
	session = PROXY.session()
	session.sql('begin')
	expect_error('22012', session.sql, 'select 1/0')
	with variables(max_transaction_idle_time=1000):
		equal(told_before_the_end(session)[0][1], '25P03')
	server_is_free()


def test_idle_in_a_transaction_whose_server_is_gone():
	session = PROXY.session()
	pid = session.scalar('begin; select pg_backend_pid()')
	CLUSTER.primary.sql('select pg_terminate_backend(%s)' % pid)
	expect_error(('57P01', '08006', '25P02'), session.sql, 'select 1')
	with variables(max_transaction_idle_time=1000):
		equal(told_before_the_end(session)[0][1], '25P03')


def test_long_transaction():
	"""It ends although the client is busy in it all the time."""
	session = PROXY.session()
	session.sql("begin; insert into t values (1, 'long transaction')")
	with variables(max_transaction_time=1500):
		start, error = time.monotonic(), None
		while error is None and time.monotonic() - start < 8:
			session.send(query('select pg_sleep(0.1)'))
			messages = session.read_until('ZE')
			error = next((wire.error_fields(b) for k, b in messages if k == 'E'), None)
	equal((error['V'], error['C'], error['M']),
		('FATAL', '25P04', 'terminating connection due to transaction timeout'))
	assert session.closed_by_peer()
	server_is_free()
	equal(rows_with('long transaction'), '0')


def timed_out(session, run, limit=4.0):
	start = time.monotonic()
	error = expect_error('57014', run)
	took = time.monotonic() - start
	equal(error.message, QUERY_TIMEOUT)
	assert took < limit, took
	equal(session.scalar('select 7'), '7')
	return took


def test_query_timeout():
	with variables(default_query_timeout=1000), PROXY.session() as session:
		timed_out(session, lambda: session.sql('select pg_sleep(30)'))
		timed_out(session, lambda: session.extended('select pg_sleep(30)'))
		session.sql('begin')
		error = expect_error('57014', session.sql, 'select pg_sleep(30)')
		equal((error.message, session.status), (QUERY_TIMEOUT, 'E'))
		session.sql('rollback')
	server_is_free()


def test_query_timeout_of_a_rule_is_nearer():
	with PROXY.session() as session:
		took = timed_out(session, lambda: session.sql('select /*rule_timeout*/ pg_sleep(30)'))
		assert took < 1.0, took


def test_query_timeout_of_a_hostgroup():
	PROXY.admin('insert into pgsql_hostgroup_attributes (hostgroup_id, hostgroup_settings) values'
		" (%d, '{\"default_query_timeout\": 1000}')" % OTHER)
	PROXY.admin('load pgsql servers to runtime')
	try:
		with PROXY.session('app2', 'app2-secret') as session:
			timed_out(session, lambda: session.sql('select pg_sleep(30)'))
		with PROXY.session() as session:
			equal(session.scalar('select 1 from pg_sleep(1.5)'), '1')
		PROXY.admin('update pgsql_hostgroup_attributes set'
			" hostgroup_settings = '{\"default_query_timeout\": 5}'")
		error = expect_error('P0001', PROXY.admin, 'load pgsql servers to runtime')
		assert 'default_query_timeout' in error.message and '1000' in error.message, error.message
	finally:
		PROXY.admin('delete from pgsql_hostgroup_attributes')
		PROXY.admin('load pgsql servers to runtime')


def test_query_timeout_while_waiting_for_a_server():
	holder = PROXY.session()
	holder.sql('begin')
	with PROXY.session() as session:
		error = expect_error('57014', session.sql, 'select /*rule_timeout*/ 1')
		equal(error.message, QUERY_TIMEOUT)
	holder.close()
	server_is_free()


def test_query_timeout_of_a_server_that_does_not_answer():
	"""A frozen server cannot be cancelled: the client is told all the same, a little later."""
	with PROXY.session() as session, variables(default_query_timeout=1000):
		pid = int(session.scalar('select pg_backend_pid()'))
		session.send(query('select 1 from pg_sleep(1.2)'))
		os.kill(pid, 19)
		try:
			start = time.monotonic()
			messages = session.read_ready(15)
			took = time.monotonic() - start
		finally:
			os.kill(pid, 18)
		fields = [wire.error_fields(b) for k, b in messages if k == 'E']
		equal([(f['C'], f['M']) for f in fields], [('57014', QUERY_TIMEOUT)])
		assert took < 10, took
		eventually(lambda: session.sql('select 1').scalar == '1', 5, 'a new server connection')


def test_login_timeout():
	with variables(connect_timeout_client=1000):
		silent = wire.Wire(PROXY.address)
		half = wire.Wire(PROXY.address)
		half.send(wire.startup({'user': 'app'})[:9])
		started = wire.Wire(PROXY.address)
		started.send(wire.startup({'user': 'app', 'database': 'app'}))
		for session in (silent, half):
			equal(session.read_all(6), [])  # as a server: nobody to talk to yet
		messages = started.read_all(6)
		equal([k for k, _ in messages], ['R', 'E'])
		fields = wire.error_fields(messages[1][1])
		equal((fields['V'], fields['C'], fields['M']),
			('FATAL', '57014', 'canceling authentication due to timeout'))


def test_wait_for_a_server_says_busy_or_down():
	"""Two causes, two SQLSTATEs: BB-169."""
	holder = PROXY.session()
	holder.sql('begin')
	with PROXY.session() as session:
		error = expect_error('53300', session.sql, 'select 1')
		assert error.message.startswith('Max connect timeout reached while reaching hostgroup 10'
			' after 1'), error.message
		assert 'max_connections' in error.fields['D'], error.fields
	holder.close()
	PROXY.admin("update pgsql_servers set status = 'OFFLINE_HARD' where hostgroup_id = %d" % OTHER)
	PROXY.admin('load pgsql servers to runtime')
	try:
		with PROXY.session('app2', 'app2-secret') as session:
			error = expect_error('08001', session.sql, 'select 1')
			assert 'reaching hostgroup %d' % OTHER in error.message, error.message
			assert 'online' in error.fields['D'], error.fields
	finally:
		PROXY.admin("update pgsql_servers set status = 'ONLINE'")
		PROXY.admin('load pgsql servers to runtime')


# ---- clients that keep a server connection and do nothing ----

def test_idle_after_flush_without_sync():
	"""The server has answered all there is, and nothing says that the client will go on."""
	session = PROXY.session()
	session.send(parse('select 1') + bind() + execute() + flush())
	session.read_until('C')
	with variables(max_transaction_idle_time=1000):
		told, took = told_before_the_end(session)
	equal(told[:2], ('FATAL', '25P03'))
	assert took < 5, took
	server_is_free()


def test_a_pipeline_that_pauses_is_not_timed_out_as_a_query():
	with variables(default_query_timeout=1000), PROXY.session() as session:
		session.send(parse('select 1') + bind() + execute() + flush())
		session.read_until('C')
		time.sleep(2.5)
		session.send(parse('select 2 from pg_sleep(0.2)') + bind() + execute() + sync())
		equal([k for k, _ in session.read_ready()], list('12DCZ'))


def test_copy_in_that_stalls():
	session = PROXY.session()
	session.send(query('copy t from stdin') + copy_data(b'1\tstalled\n')[:-3])
	session.read_until('G')
	with variables(max_transaction_idle_time=1000):
		told, took = told_before_the_end(session)
	equal(told[:2], ('FATAL', '25P03'))
	assert took < 5, took
	server_is_free()
	equal(rows_with('stalled'), '0')


def test_copy_in_that_is_slow_goes_on():
	with variables(max_transaction_idle_time=1000), PROXY.session() as session:
		session.send(query('copy t from stdin'))
		session.read_until('G')
		for _ in range(7):
			session.send(copy_data(b'1\tslow\n'))
			time.sleep(0.5)
		session.send(wire.copy_done())
		session.read_ready()
	equal(rows_with('slow'), '7')


def slow_reader():
	"""A session that has asked for 80 MB and has not read any of it."""
	session = PROXY.session()
	session.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 * 1024)
	session.send(query("select repeat('x', 1000) from generate_series(1, 80000)"))
	return session


def test_a_result_that_nobody_reads():
	session = slow_reader()
	with variables(max_transaction_idle_time=1000):
		# No other client could use the server otherwise.
		eventually(lambda: PROXY.admin_scalar("select count(*) from stats_pgsql_processlist where"
			" command = 'Query'") == '0', 8, 'end of the session that does not read')
	session.abort()
	server_is_free()


def test_a_result_that_is_read_slowly_arrives():
	with variables(max_transaction_idle_time=1000):
		session = slow_reader()
		start, got = time.monotonic(), 0
		while time.monotonic() - start < 4:
			got += len(session.sock.recv(1 << 20))
			time.sleep(0.3)
		assert got < 40_000_000, 'not slow at all'
		while got < 80_000_000:
			part = session.sock.recv(1 << 20)
			assert part, 'ended after %d bytes' % got
			got += len(part)
		session.abort()
	server_is_free()


def test_a_client_whose_machine_is_gone_is_probed():
	"""Keepalive is on for clients."""
	with PROXY.session() as session:
		port = session.sock.getsockname()[1]

		def probed():
			with open('/proc/net/tcp', encoding='ascii') as f:
				lines = [line.split() for line in f.readlines()[1:]]
			mine = [line for line in lines if line[1].endswith(':%04X' % PROXY.port) and
				line[2].endswith(':%04X' % port)]
			return [line[5][:2] for line in mine] == ['02']  # the timer that runs: keepalive

		eventually(probed, 5, 'keepalive on the connection of an idle client')


if __name__ == '__main__':
	runner.main(globals())
