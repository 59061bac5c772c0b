#!/usr/bin/python3
"""Limits of client connections, and what a client that waits for a server is told."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error  # noqa: E402
from cluster import Cluster, Proxy, eventually  # noqa: E402
from cluster.wire import query, row_values  # noqa: E402

TIMEOUT = 60
CLUSTER = PROXY = None


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 0)
	PROXY = Proxy(CLUSTER, pair=None, workers=2, servers=[{'address': '127.0.0.1',
		'port': CLUSTER.primary.port, 'hostgroup': 10, 'max_connections': 1}],
		users=[{'username': 'app', 'password': 'app-secret', 'default_hostgroup': 10},
			{'username': 'app2', 'password': 'app2-secret', 'default_hostgroup': 10,
				'max_connections': 2}])


def teardown():
	PROXY.stop()
	CLUSTER.close()


def set_variable(name, value):
	PROXY.admin("set pgsql-%s = '%s'" % (name, value))
	PROXY.admin('load pgsql variables to runtime')


def refused(message, *who):
	error = expect_error('53300', PROXY.session, *who)
	equal(error.severity, 'FATAL')
	assert error.message.startswith(message), error.message


def nobody_is_left():
	eventually(lambda: PROXY.admin_scalar('select count(*) from stats_pgsql_processlist') == '0', 5,
		'the end of all sessions')


def test_connections_of_a_database():
	set_variable('max_connections_per_database', 'app=2, postgres = 1, *=3')
	try:
		first, second = PROXY.session(), PROXY.session()
		refused('too many connections for database "app"', 'app', 'app-secret', 'app')
		other = PROXY.session('app', 'app-secret', 'postgres')
		refused('too many connections for database "postgres"', 'app', 'app-secret', 'postgres')
		second.close()
		eventually(lambda: PROXY.session().close() is None, 5, 'the place that has become free')
		first.close()
		other.close()
		nobody_is_left()
		# The star is for each of the others, not for all together.
		for database in ('nothing1', 'nothing2'):
			held = [PROXY.session('app', 'app-secret', database) for _ in range(3)]
			refused('too many connections for database', 'app', 'app-secret', database)
			for session in held:
				session.close()
	finally:
		set_variable('max_connections_per_database', '')
	PROXY.session().close()


def test_a_wrong_list_is_refused():
	for text in ('app', 'app=', 'app=-1', 'app=x', '=3', 'app=1, app=2', 'app=1000001'):
		PROXY.admin("set pgsql-max_connections_per_database = '%s'" % text)
		error = expect_error('P0001', PROXY.admin, 'load pgsql variables to runtime')
		assert 'max_connections_per_database' in error.message, error.message
	set_variable('max_connections_per_database', '')


def test_connections_of_a_user():
	held = [PROXY.session('app2', 'app2-secret') for _ in range(2)]
	refused("User 'app2' has exceeded", 'app2', 'app2-secret')
	held.pop().close()
	eventually(lambda: PROXY.session('app2', 'app2-secret').close() is None, 5, 'a free place')
	held.pop().close()


def test_all_connections():
	nobody_is_left()
	set_variable('max_connections', 2)
	try:
		held = [PROXY.session() for _ in range(2)]
		refused('Too many connections')
		for session in held:
			session.close()
		eventually(lambda: PROXY.session().close() is None, 5, 'a free place')
	finally:
		set_variable('max_connections', 10000)


def test_a_client_that_waits_is_told():
	set_variable('query_wait_notify', 500)
	holder = PROXY.session()
	holder.sql('begin')
	try:
		with PROXY.session() as session:
			session.send(query('select 1'))
			start = time.monotonic()
			session.read_until('N', 5)
			assert 0.4 < time.monotonic() - start < 3
			holder.sql('commit')
			equal([k for k, _ in session.read_ready()], list('TDCZ'))  # once, not again
			equal(session.notices[0]['C'], '00000')
			assert 'hostgroup 10' in session.notices[0]['M'], session.notices
			assert 'max_connections' in session.notices[0]['D'], session.notices
		set_variable('query_wait_notify', 0)
		holder.sql('begin')
		with PROXY.session() as session:
			session.send(query('select 1'))
			time.sleep(1.5)
			holder.sql('commit')
			equal([k for k, _ in session.read_ready()], list('TDCZ'))
	finally:
		set_variable('query_wait_notify', 5000)
		holder.close()


def test_a_waiting_client_that_leaves_or_cancels_frees_its_place():
	holder = PROXY.session()
	holder.sql('begin')
	leaver, canceler, waiter = PROXY.session(), PROXY.session(), PROXY.session()
	for session in (leaver, canceler, waiter):
		session.send(query('select 2'))
	eventually(lambda: PROXY.admin_scalar("select count(*) from stats_pgsql_processlist where"
		" command = 'Connect'") == '3', 5, 'three that wait')
	leaver.abort()
	canceler.cancel()
	equal([k for k, _ in canceler.read_ready(5)], ['E', 'Z'])
	holder.sql('commit')
	equal([k for k, _ in waiter.read_ready(5)], list('TDCZ'))
	equal(canceler.scalar('select 3'), '3')
	for session in (holder, canceler, waiter):
		session.close()


def test_those_who_wait_are_served_in_order():
	holder = PROXY.session()
	holder.sql('begin')
	waiters = [PROXY.session() for _ in range(12)]
	for i, session in enumerate(waiters):
		session.send(query('select extract(epoch from clock_timestamp())'))
		eventually(lambda n=i: PROXY.admin_scalar("select count(*) from stats_pgsql_processlist"
			" where command = 'Connect'") == str(n + 1), 5, 'one more that waits')
	holder.sql('rollback')
	times = [[float(row_values(b)[0]) for k, b in session.read_ready(10) if k == 'D'][0]
		for session in waiters]
	equal(times, sorted(times))
	for session in waiters + [holder]:
		session.close()


if __name__ == '__main__':
	runner.main(globals())
