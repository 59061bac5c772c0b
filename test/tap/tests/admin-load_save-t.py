#!/usr/bin/python3
"""The admin port: who may log in, the memory, disk and runtime layers, and the statistics
tables."""
import subprocess
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import PG_BIN, equal, expect_error  # noqa: E402
from cluster import READER, WRITER, Cluster, Proxy, eventually, wire  # noqa: E402

CLUSTER = PROXY = None


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 1)
	PROXY = Proxy(CLUSTER)


def teardown():
	PROXY.stop()
	CLUSTER.close()


def _memory(name):
	return PROXY.admin_scalar(
		"select variable_value from global_variables where variable_name='%s'" % name)


def _runtime(name):
	return PROXY.admin_scalar(
		"select variable_value from runtime_global_variables where variable_name='%s'" % name)


def _disk(name):
	return PROXY.admin_scalar(
		"select variable_value from disk.global_variables where variable_name='%s'" % name)


def test_login_is_checked():
	expect_error('28P01', PROXY.admin, 'select 1', 'admin', 'wrong')
	expect_error('28P01', PROXY.admin, 'select 1', 'nobody', 'admin')
	expect_error('28P01', PROXY.admin, 'select 1', 'app', 'app-secret')


def test_stats_user_reads_statistics_and_changes_nothing():
	rows = PROXY.admin('select * from stats_pgsql_global', 'stats', 'stats').rows
	assert len(rows) > 10
	for text in ('delete from pgsql_users', 'load pgsql users to runtime', 'proxysql shutdown',
			"attach database '/tmp/x' as x", 'select * from pgsql_users'):
		expect_error(('P0001', '28000', '42501'), PROXY.admin, text, 'stats', 'stats')
	equal(PROXY.admin_scalar("select count(*) from pgsql_users where username = 'app'"), '1')


def test_admin_users_may_not_use_the_data_port():
	expect_error('28P01', wire.connect, PROXY.address, 'admin', 'admin', 'app')


def test_variable_goes_through_the_layers():
	name = 'pgsql-connect_timeout_server_max'
	old = _runtime(name)
	PROXY.admin('set %s=7777' % name)
	equal((_memory(name), _runtime(name), _disk(name)), ('7777', old, old))
	PROXY.admin('load pgsql variables to runtime')
	equal((_memory(name), _runtime(name), _disk(name)), ('7777', '7777', old))
	PROXY.admin('save pgsql variables to disk')
	equal(_disk(name), '7777')
	PROXY.admin('set %s=8888' % name)
	PROXY.admin('load pgsql variables from disk')
	equal(_memory(name), '7777')
	PROXY.admin('set %s=9999' % name)
	PROXY.admin('save pgsql variables from runtime')
	equal(_memory(name), '7777')


def test_all_spellings_of_load_and_save():
	for module in ('PGSQL SERVERS', 'PGSQL USERS', 'PGSQL QUERY RULES', 'PGSQL VARIABLES',
			'ADMIN VARIABLES'):
		for text in ('LOAD %s TO RUNTIME', 'load %s to run', 'LOAD %s FROM MEMORY',
				'LOAD %s FROM MEM',
				'SAVE %s TO DISK', 'SAVE %s FROM MEMORY', 'SAVE %s FROM MEM', 'LOAD %s TO MEMORY',
				'LOAD %s FROM DISK', 'LOAD %s TO MEM', 'SAVE %s FROM RUNTIME', 'SAVE %s TO MEMORY',
				'SAVE %s TO MEM', 'SAVE %s FROM RUN', '  load   %s  from  disk ;'):
			result = PROXY.admin(text % module)
			assert result.tag in ('LOAD', 'SAVE'), (text, module, result.tag)


def test_value_out_of_range_is_refused_at_load():
	name = 'pgsql-connect_timeout_server_max'
	old = _runtime(name)
	for bad in ('-1', '9', '3600001', 'abc', ''):
		PROXY.admin("update global_variables set variable_value='%s' where variable_name='%s'" %
			(bad, name))
		try:
			PROXY.admin('load pgsql variables to runtime')
		except wire.WireError as e:
			assert name in e.message, e
		equal(_runtime(name), old, 'after %r' % bad)
		PROXY.admin('save pgsql variables from runtime')


def test_users_take_effect_at_load():
	CLUSTER.primary.sql("create role newcomer login password 'pw'")
	PROXY.admin("insert into pgsql_users (username, password, default_hostgroup)"
		" values ('newcomer', 'pw', %d)" % WRITER)
	expect_error('28P01', PROXY.session, 'newcomer', 'pw')
	PROXY.admin('load pgsql users to runtime')
	PROXY.session('newcomer', 'pw').close()
	PROXY.admin("delete from pgsql_users where username = 'newcomer'")
	PROXY.session('newcomer', 'pw').close()
	PROXY.admin('load pgsql users to runtime')
	expect_error('28P01', PROXY.session, 'newcomer', 'pw')


def test_server_taken_out_gets_no_new_queries():
	replica = CLUSTER.replicas[0]
	where = "hostname = '127.0.0.1' and port = %d" % replica.port
	PROXY.admin("update pgsql_servers set status = 'OFFLINE_SOFT' where " + where)
	PROXY.admin('load pgsql servers to runtime')
	try:
		with PROXY.session() as session:
			eventually(
				lambda: {int(session.scalar('select inet_server_port()')) for _ in range(5)} ==
				{CLUSTER.primary.port}, what='reads on the primary')
	finally:
		PROXY.admin("update pgsql_servers set status = 'ONLINE' where " + where)
		PROXY.admin('load pgsql servers to runtime')
	with PROXY.session() as session:
		eventually(lambda: int(session.scalar('select inet_server_port()')) == replica.port,
			what='reads on the replica again')


def test_constraints_refuse_wrong_rows():
	for text in ("insert into pgsql_servers (hostgroup_id, hostname, port) values (1, 'h', 70000)",
			"insert into pgsql_servers (hostgroup_id, hostname, status) values (1, 'h', 'SLEEPY')",
			"insert into pgsql_users (username, active) values ('u', 7)",
			'insert into pgsql_replication_hostgroups (writer_hostgroup, reader_hostgroup)'
			' values (5, 5)',
			"insert into pgsql_replication_hostgroups (writer_hostgroup, reader_hostgroup,"
			" consistency_mode) values (5, 6, 'always')",
			"insert into pgsql_replication_hostgroups (writer_hostgroup, reader_hostgroup,"
			" proxy_protocol) values (5, 6, 'v99')"):
		expect_error(('28000', 'P0001', '23514'), PROXY.admin, text)


def test_replication_hostgroup_columns_are_in_the_documented_order():
	columns = [r[1] for r in PROXY.admin('pragma table_info(pgsql_replication_hostgroups)').rows]
	equal(columns, ['writer_hostgroup', 'reader_hostgroup', 'check_type', 'comment',
		'txn_split_enabled',
		'consistency_mode', 'max_lag_bytes', 'lsn_wait_timeout_ms', 'proxy_protocol'])


def test_sql_errors_leave_the_session_usable():
	session = wire.connect(PROXY.admin_address, 'admin', 'admin', 'main')
	for text in ('selec', 'select * from nope', 'load nonsense',
			'insert into pgsql_users values (1)'):
		error = expect_error(('28000', 'P0001', '42601'), session.sql, text)
		assert 'ProxySQL Admin Error' in error.message, error
	equal(session.scalar('select 40 + 2'), '42')
	session.close()


def test_psql_shows_tables():
	env = dict(os.environ, PGPASSWORD='admin')
	for text, part in (('show tables', 'pgsql_servers'), ('show databases', 'disk'),
			('select username from pgsql_users', 'app'), ('show pgsql variables', 'pgsql-threads'),
			('\\dt', 'pgsql_servers'), ('\\d', 'pgsql_servers'), ('\\l', 'disk'), ('\\dn', 'disk'),
			('\\dt pgsql_s*', 'pgsql_servers_ssl_params'), ('\\dt stats.*', 'stats_pgsql_global'),
			('\\d pgsql_servers', 'hostgroup_id'), ('\\d disk.pgsql_users', 'username'),
			('\\d+ pgsql_servers', 'max_connections'), ('\\di', ''), ('\\dv', ''),
			('show create table pgsql_servers', 'hostgroup_id')):
		run = subprocess.run([os.path.join(PG_BIN, 'psql'), '-X', '-h', '127.0.0.1', '-p',
			str(PROXY.admin_port), '-U', 'admin', '-d', 'main', '-c', text], env=env, text=True,
			stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
		assert run.returncode == 0 and re.search(part, run.stdout), (text, run.stdout)
		assert 'ERROR' not in run.stdout and 'out of range' not in run.stdout, (text, run.stdout)


def test_extended_protocol_on_the_admin_port_is_one_error():
	session = wire.connect(PROXY.admin_address, 'admin', 'admin', 'main')
	session.send(wire.parse('select 1') + wire.bind() + wire.execute() + wire.sync())
	kinds = [k for k, _ in session.read_ready()]
	assert kinds in (['E', 'Z'], ['1', '2', 'D', 'C', 'Z']), kinds
	equal(session.scalar('select 1'), '1')
	session.close()


def test_processlist_shows_sessions_while_they_run():
	session = PROXY.session()
	session.send(wire.query("/* route=primary */ select 'in-the-list', pg_sleep(1)"))
	eventually(
		lambda: PROXY.admin(
		'select user, database, hostgroup, srv_port from stats_pgsql_processlist'
		" where info like '%in-the-list%' and info not like '%processlist%'").rows ==
		[('app', 'app', str(WRITER), str(CLUSTER.primary.port))], what='the row')
	session.read_ready()
	number = len(PROXY.admin('select * from stats_pgsql_processlist').rows)
	assert number >= 1
	session.close()
	eventually(lambda: len(PROXY.admin('select * from stats_pgsql_processlist').rows) == 0,
		what='an empty list')


def test_kill_ends_a_session():
	session = PROXY.session()
	session.sql('select 1')
	number = PROXY.admin_scalar('select SessionID from stats_pgsql_processlist')
	PROXY.admin('kill pgsql connection ' + number)
	assert session.closed_by_peer(5)
	expect_error(('P0001', '28000'), PROXY.admin, 'kill pgsql connection 999999999')


def test_connection_pool_table_adds_up():
	with PROXY.session() as session:
		for _ in range(20):
			session.sql('/* route=primary */ select 1')
	rows = PROXY.admin('select hostgroup, srv_port, status, ConnUsed, ConnFree, ConnOK, Queries'
		' from stats_pgsql_connection_pool').rows
	equal({(r[0], r[1]) for r in rows}, {(str(WRITER), str(CLUSTER.primary.port)),
		(str(READER), str(CLUSTER.replicas[0].port))})
	for hostgroup, port, status, used, free, ok, queries in rows:
		equal((status, used), ('ONLINE', '0'))
		assert int(free) <= int(ok), rows
		assert int(queries) > 0 or int(hostgroup) == READER, rows
	node = CLUSTER.primary
	free = int([r[4] for r in rows if int(r[1]) == node.port][0])
	equal(
		node.backends(user='app'), free, 'sessions on the server and free connections in the pool')


def test_global_counters_follow_clients():
	before = int(PROXY.global_stats()['Client_Connections_created'])
	for _ in range(5):
		PROXY.session().close()
	stats = PROXY.global_stats()
	assert int(stats['Client_Connections_created']) >= before + 5
	eventually(lambda: int(PROXY.global_stats()['Client_Connections_connected']) == 0,
		what='no client')


def test_digest_table_is_emptied():
	with PROXY.session() as session:
		session.sql('select 1')
	eventually(lambda: PROXY.admin('select * from stats_pgsql_query_digest').rows, what='digests')
	assert PROXY.admin('select * from stats_pgsql_query_digest_reset').rows
	equal(PROXY.admin('select * from stats_pgsql_query_digest').rows, [])


def test_saved_configuration_survives_a_restart():
	with Proxy(CLUSTER, name='kept') as proxy:
		proxy.admin('set pgsql-max_connections=4321')
		proxy.admin("insert into pgsql_users (username, password, default_hostgroup)"
			" values ('app_clear', 'other', %d) on conflict do update set password = 'other'" %
			WRITER)
		for module in ('pgsql variables', 'pgsql users'):
			proxy.admin('load %s to runtime' % module)
			proxy.admin('save %s to disk' % module)
		proxy.admin('set pgsql-wait_timeout=5555000')  # not saved
		proxy.stop()
		proxy.start(initial=False)
		equal(proxy.admin_scalar("select variable_value from global_variables where"
			" variable_name = 'pgsql-max_connections'"), '4321')
		assert proxy.admin_scalar("select variable_value from global_variables where"
			" variable_name = 'pgsql-wait_timeout'") != '5555000'
		equal(proxy.admin_scalar("select password from pgsql_users where username = 'app_clear'"),
			'other')
		proxy.stop()
		proxy.start(initial=True)
		equal(proxy.admin_scalar("select password from pgsql_users where username = 'app_clear'"),
			'app-secret')


def test_loads_under_traffic_disturb_nobody():
	with PROXY.session() as session:
		for i in range(100):
			if i % 5 == 0:
				for module in ('servers', 'users', 'query rules', 'variables'):
					PROXY.admin('load pgsql %s to runtime' % module)
			equal(session.scalar('select %d' % i), str(i))


if __name__ == '__main__':
	runner.main(globals())
