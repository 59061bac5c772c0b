#!/usr/bin/python3
"""Clients that share one server connection: what one does there, the next one must not see, and what
one is told must be what happened to it.
"""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error  # noqa: E402
from cluster import Cluster, Proxy, eventually, wire  # noqa: E402
from cluster.wire import bind, close, describe, execute, flush, parse, query, sync  # noqa: E402

TIMEOUT = 240
CLUSTER = PROXY = None
START = '1234kB'  # what client A asks for at its login
SHOW = 'show work_mem'
DEFAULT = '4MB'


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 0, conf={'max_prepared_transactions': '5'})
	CLUSTER.primary.sql('create table plain (i int); create table serials (i serial, v int);'
		'create table deferred (i int primary key deferrable initially deferred);'
		"create function sets() returns text language sql as "
		"$$ select set_config('work_mem', '7777kB', false) $$;"
		"create procedure sets_too() language plpgsql as "
		"$$ begin perform set_config('work_mem', '7777kB', false); end $$;"
		'create role other; grant other to app;'
		'grant all on all tables in schema public to app; grant all on schema public to app;'
		'grant all on all sequences in schema public to app', 'app')
	PROXY = Proxy(CLUSTER, pair=None, workers=1, servers=[{'address': '127.0.0.1',
		'port': CLUSTER.primary.port, 'hostgroup': 10, 'max_connections': 1}],
		variables={'connect_timeout_server_max': '1500'})


def teardown():
	PROXY.stop()
	CLUSTER.close()


def run(session, data, timeout=15):
	"""Sends messages up to one ReadyForQuery; [(kind, body)]."""
	session.send(data)
	return session.read_ready(timeout)


def kinds(messages):
	return ''.join(k for k, _ in messages)


def one(sql, values=()):
	return parse(sql) + bind(values) + execute()


def value(messages):
	rows = [b for k, b in messages if k == 'D']
	return wire.row_values(rows[-1])[0].decode() if rows else None


# ---- parameters ----

# What A does, as the bytes of one request each. Afterwards B must see the server's default, and A its
# own value, whatever connection it gets.
LEAKS = {
	'SET rolled back by an error in its pipeline': ([one("set work_mem = '9MB'") + one('select 1/0') +
		sync()], START),
	'RESET rolled back by an error in its pipeline': ([one('reset work_mem') + one('select 1/0') +
		sync()], START),
	'SET behind ROLLBACK in a pipeline': ([query('begin'), one('rollback') +
		one("set work_mem = '9MB'") + sync()], '9MB'),
	'BEGIN and SET in one pipeline, ROLLBACK': ([one('begin') + one("set work_mem = '9MB'") + sync(),
		query('rollback')], START),
	'BEGIN and RESET in one pipeline, ROLLBACK': ([one('begin') + one('reset work_mem') + sync(),
		query('rollback')], START),
	'ROLLBACK AND CHAIN': ([query('begin'), query("set work_mem = '9MB'"),
		query('rollback and chain'), query('commit')], START),
	'COMMIT AND CHAIN': ([query('begin'), query("set work_mem = '9MB'"), query('commit and chain'),
		query('rollback')], '9MB'),
	'COMMIT refused by a deferred constraint': ([query('begin'), query("set work_mem = '9MB'"),
		query('insert into deferred values (1), (1)'), query('commit')], START),
	'EXECUTE of a constant SET': ([query("prepare p as select set_config('work_mem', '9MB', false)"),
		query('execute p'), query('deallocate all')], '9MB'),
	'PREPARE TRANSACTION': ([query('begin'), query("set work_mem = '9MB'"),
		query("prepare transaction 'gone'"), query("rollback prepared 'gone'")], '9MB'),
	'SET LOCAL': ([query('begin'), query("set local work_mem = '9MB'"), query('commit')], START),
	'ROLLBACK TO': ([query('begin'), query('savepoint a'), query("set work_mem = '9MB'"),
		query('rollback to a'), query('commit')], START),
	'function that sets': ([query('select sets()')], '7777kB'),
	'procedure that sets': ([query('call sets_too()')], '7777kB'),
	'DO block': ([query("do $$ begin perform set_config('work_mem', '9MB', false); end $$")], '9MB'),
	'DO block in a transaction': ([query('begin'), query(
		"do $$ begin perform set_config('work_mem', '9MB', false); end $$"), query('commit')], '9MB'),
	'DO block rolled back': ([query('begin'), query(
		"do $$ begin perform set_config('work_mem', '9MB', false); end $$"), query('rollback')], START),
	'function that resets': ([query("do $$ begin reset work_mem; end $$")], START),
	'set_config() of a row that is not there': ([query(
		"select set_config('work_mem', '9MB', false) where false")], START),
	'set_config() of a row that is there': ([query(
		"select set_config('work_mem', '9MB', false) where true")], '9MB'),
	'SET in a batch': ([query("set work_mem = '9MB'; select 1")], '9MB'),
	'SET in a batch that fails': ([query("set work_mem = '9MB'; select 1/0")], START),
	'SET in a batch, behind COMMIT': ([query("begin; select 1; commit; set work_mem = '9MB'; select 1")],
		'9MB'),
	'SET, RESET and SET LOCAL in a batch': ([query("set work_mem = '9MB'; reset work_mem;"
		" set local work_mem = '8MB'")], START),
	'ROLLBACK in a batch, behind SET': ([query('begin'), query("set work_mem = '9MB'"),
		query('rollback; select 1')], START),
	'SET and ROLLBACK in a batch': ([query("begin; set work_mem = '9MB'; rollback")], START),
	'COMMIT in the middle of a batch that fails': ([query("set work_mem = '9MB'; commit; select 1/0")],
		'9MB'),
	'savepoints in a batch': ([query("begin; set work_mem = '9MB'; savepoint a; set work_mem = '8MB';"
		" rollback to a; commit")], '9MB'),
	'EXECUTE of what was prepared': ([query("prepare p as select set_config('work_mem', '9MB', false)"),
		query('execute p'), query('deallocate all')], '9MB'),
	'UPDATE pg_settings': ([query("update pg_settings set setting = '9000' where name = 'work_mem'")],
		'9000kB'),
	'portal that is not run to its end': ([parse("select set_config('work_mem', '9MB', false)") + bind() +
		execute('', 1) + sync()], '9MB'),
	'SET FROM CURRENT': ([query("set work_mem = '9MB'"), query('create or replace function fixed()'
		' returns int language sql set work_mem from current as $$ select 1 $$'),
		query('select fixed()')], '9MB'),
	'SET TIME ZONE INTERVAL': ([query("set time zone interval '1:30' hour to minute")], START),
}


def test_parameters_of_one_client_are_not_seen_by_the_next():
	for name, (steps, wanted) in LEAKS.items():
		with PROXY.session(work_mem=START) as a, PROXY.session() as b:
			equal(b.scalar(SHOW), DEFAULT, name)
			for step in steps:
				run(a, step)
			pinned = PROXY.admin("select pin_reasons from stats_pgsql_processlist where SessionID = %d" %
				a.pid).rows[0][0]
			# Followed, so the connection is free for the next client.
			equal(pinned, None, name)
			equal(b.scalar(SHOW), DEFAULT, name + ': the next client')
			if wanted is not None:
				equal(a.scalar(SHOW), wanted, name + ': itself')
		with PROXY.session() as c:
			equal(c.scalar(SHOW), DEFAULT, name + ': a client after it')


# Statements after which the session keeps its connection: nobody else gets it before it ends.
PINS = {
	'SET ROLE, RESET ALL': [query('set role other'), query('reset all')],
	'lock of a statement that fails': [query(
		'select pg_advisory_lock(77), 1 / (g - 1) from generate_series(1, 1) g')],
	'lock read with a row limit': [parse('select pg_advisory_lock(78)') + bind() + execute('', 1) +
		sync()],
	'DISCARD TEMP rolled back': [query('create temp table t (i int)'),
		one('discard temp') + one('select 1/0') + sync()],
	'temp schema by search_path': [query('set search_path = pg_temp, public'),
		query('create table hidden (i int)')],
	'idle_session_timeout': [query("set idle_session_timeout = '1h'")],
}


def test_session_keeps_its_connection_when_it_must():
	for name, steps in PINS.items():
		with PROXY.session() as a:
			for step in steps:
				run(a, step)
			row = PROXY.admin('select pin_reasons from stats_pgsql_processlist where SessionID = %d' %
				a.pid).rows[0]
			assert row[0], '%s: not pinned' % name
		with PROXY.session() as b:
			equal(b.scalar(SHOW), DEFAULT, name)
			equal(b.scalar('select current_user'), 'app', name)
			equal(b.scalar("select count(*) from pg_locks where locktype = 'advisory'"), '0', name)
			equal(b.scalar("select count(*) from pg_listening_channels()"), '0', name)
			equal(b.scalar('select coalesce(to_regclass($$hidden$$)::text, $$-$$)'), '-', name)


def test_half_a_datestyle_keeps_the_other_half():
	with PROXY.session() as a, PROXY.session() as b:
		b.sql('set datestyle = iso')
		a.sql("set datestyle = 'iso, dmy'")
		equal(b.scalar("select '01/02/2024'::date::text"), '2024-01-02')
		equal(a.scalar("select '01/02/2024'::date::text"), '2024-02-01')
		a.sql('set datestyle = sql')
		equal(b.scalar("select '01/02/2024'::date::text"), '2024-01-02')
		equal(a.scalar("select '01/02/2024'::date::text"), '01/02/2024')
		equal(a.scalar('show datestyle'), 'SQL, DMY')


# ---- prepared statements ----

def test_literals_of_shared_statements_are_read_by_each_clients_parameters():
	for parameter, (theirs, mine), text in (
			('timezone', ('Asia/Tokyo', 'UTC'),
				"select extract(epoch from timestamptz '2024-01-01 00:00')::text"),
			('datestyle', ('iso, dmy', 'iso, mdy'), "select (date '01/02/2024')::text"),
			('standard_conforming_strings', ('off', 'on'), "select length('a\\\\b')::text")):
		with PROXY.session(**{parameter: theirs}) as a, PROXY.session(**{parameter: mine}) as b:
			got = []
			for session in (a, b):
				run(session, parse(text, 'n') + sync())
				got.append(value(run(session, bind((), 'n') + execute() + sync())))
			with CLUSTER.primary.session('app', 'app', 'app-secret') as direct:
				wanted = []
				for setting in (theirs, mine):
					direct.sql("set %s = '%s'" % (parameter, setting))
					wanted.append(direct.scalar(text))
			equal(got, wanted, parameter)
			assert got[0] != got[1], parameter
	# A statement that must be parsed again after a change of parameters stays this client's own.
	with PROXY.session() as a, PROXY.session() as b:
		text = "select (timestamptz '2024-01-01 00:00')::text"
		run(a, parse(text, 'n') + sync())
		b.sql("set timezone = 'Asia/Tokyo'")
		run(b, parse(text, 'n') + sync())
		a.sql("set timezone = 'Asia/Tokyo'")
		a.sql("set timezone = 'UTC'")
		equal(value(run(b, bind((), 'n') + execute() + sync())), '2024-01-01 00:00:00+09')
		equal(value(run(a, bind((), 'n') + execute() + sync())), '2024-01-01 00:00:00+00')


def test_moment_in_a_literal_is_each_clients_own():
	text = "select (timestamptz 'now')::text"
	with PROXY.session() as a, PROXY.session() as b:
		run(a, parse(text, 'n') + sync())
		first = value(run(a, bind((), 'n') + execute() + sync()))
		run(b, parse(text, 'n') + sync())
		assert value(run(b, bind((), 'n') + execute() + sync())) != first


def test_statement_whose_result_has_changed_is_planned_anew():
	CLUSTER.primary.sql('create table wider (a int); grant all on wider to app;'
		'insert into wider values (1)', 'app')
	with PROXY.session() as a, PROXY.session() as b:
		run(a, parse('select * from wider', 'w') + sync())
		equal(kinds(run(a, bind((), 'w') + execute() + sync())), '2DCZ')
		CLUSTER.primary.sql('alter table wider add b int', 'app')
		equal(kinds(run(b, parse('select * from wider', 'w') + bind((), 'w') + describe('P') + execute() +
			sync())), '12TDCZ')
		equal(kinds(run(a, bind((), 'w') + describe('P') + execute() + sync())), '2TDCZ')


def test_statements_dropped_by_somebodys_sql_come_back():
	with PROXY.session() as a, PROXY.session() as b:
		run(b, parse('select 6', 'six') + sync())
		equal(value(run(b, bind((), 'six') + execute() + sync())), '6')
		a.execute('deallocate all; select 1')
		equal(value(run(b, bind((), 'six') + execute() + sync())), '6')
	with PROXY.session() as a, PROXY.session() as b:
		run(b, parse('select 7', 'seven') + sync())
		equal(value(run(b, bind((), 'seven') + execute() + sync())), '7')
		a.sql("do $$ begin execute 'deallocate all'; end $$")
		a.close()
		equal(value(run(b, bind((), 'seven') + execute() + sync())), '7')


def test_names_of_the_proxy_are_refused():
	with PROXY.session() as session:
		for text in ('deallocate polar_ps_1', 'execute polar_ps_1', 'prepare polar_ps_1 as select 1'):
			expect_error('42602', session.sql, text)
			expect_error('42602', session.extended, text)
		equal(session.scalar('select 1'), '1')


def test_names_follow_what_the_server_did():
	with PROXY.session() as session:
		# Skipped after an error: a Close, a Parse of a known text, an unnamed Parse.
		run(session, parse('select 5', 'five') + sync())
		run(session, one('select 1/0') + close('S', 'five') + sync())
		equal(value(run(session, bind((), 'five') + execute() + sync())), '5')
		run(session, one('select 1/0') + parse('select 5', 'again') + sync())
		equal(kinds(run(session, parse('select 5', 'again') + sync())), '1Z')
		run(session, parse('select 8') + sync())
		run(session, bind((), 'nope') + parse('select 9') + sync())
		equal(value(run(session, bind() + execute() + sync())), '8')
		# DEALLOCATE ALL with a Parse behind it in the same pipeline.
		equal(kinds(run(session, one('deallocate all') + parse('select 12', 'late') + sync())), '12C1Z')
		equal(value(run(session, bind((), 'late') + execute() + sync())), '12')
		# DEALLOCATE of a protocol-level name, in both protocols.
		equal(session.extended('deallocate late').tag, 'DEALLOCATE')
		expect_error('26000', lambda: _raise(run(session, bind((), 'late') + execute() + sync())))


def _raise(messages):
	for kind, body in messages:
		if kind == 'E':
			raise wire.WireError(wire.error_fields(body))


# ---- requests ----

def test_parse_in_a_failed_transaction_is_refused_as_by_a_server():
	with PROXY.session() as session:
		run(session, parse('select 15', 'a') + parse('rollback', 'r') + sync())
		session.sql('begin')
		expect_error('22012', session.sql, 'select 1/0')
		expect_error('25P02', lambda: _raise(run(session, parse('select 15', 'b') + sync())))
		equal(kinds(run(session, parse('rollback', 's') + bind((), 's') + execute() + sync())), '12CZ')
		equal(kinds(run(session, parse('select 15', 'b') + bind((), 'b') + execute() + sync())), '12DCZ')


def test_end_of_a_copy_is_bounded():
	with PROXY.session() as session:
		session.send(query('copy plain from stdin'))
		equal(session.read_message(5)[0], 'G')
		# CopyFail with a reason of 100 MiB.
		session.send(b'f' + (100 << 20).to_bytes(4, 'big') + b'x' * 1000)
		equal(wire.error_fields(session.read_message(5)[1])['C'], '54000')
		assert session.closed_by_peer(5)


def test_open_batch_behind_changed_parameters_runs_once_and_in_order():
	with PROXY.session() as a:
		run(a, parse('insert into plain values ($1)', 'ins') + sync())
		for pause in (0, 0.003):
			for size in (1, 2000):
				CLUSTER.primary.sql('truncate plain', 'app')
				with PROXY.session() as b:
					b.sql("set work_mem = '5MB'")  # the shared connection differs now
				count = 3 * size
				a.send(b''.join(bind((str(i),), 'ins') + execute() for i in range(size)) + flush())
				time.sleep(pause)
				a.send(b''.join(bind((str(i),), 'ins') + execute() for i in range(size, count)) + sync())
				equal(kinds(a.read_ready(30)).count('C'), count)
				equal(CLUSTER.primary.sql('select count(*), count(distinct i) from plain', 'app').rows,
					[(str(count), str(count))])


def test_messages_behind_an_error_are_skipped_to_the_sync():
	with PROXY.session() as session:
		session.send(parse('selec') + flush())
		equal(session.read_message(5)[0], 'E')
		equal(kinds(run(session, query('select 1') + sync())), 'Z')
		equal(session.scalar('select 2'), '2')


def test_hidden_parameters_that_fail_leave_the_answers_in_step():
	CLUSTER.primary.sql('create role fleeting; grant fleeting to app')
	with PROXY.session(role='fleeting') as session:
		equal(session.scalar('select current_user'), 'fleeting')
		with PROXY.session() as other:
			equal(other.scalar('select current_user'), 'app')
		CLUSTER.primary.sql('drop role fleeting')
		session.send(one('select 1') + flush())
		equal(session.read_message(10)[0], 'E')
		equal(kinds(run(session, sync())), 'Z')
		for i in (2, 3):
			expect_error('22023', session.sql, 'select %d' % i)
	with PROXY.session() as session:
		equal(session.scalar('select 4'), '4')


def test_pipeline_that_is_refused_takes_no_stack():
	PROXY.admin("insert into pgsql_users (username, password, default_hostgroup, backend, frontend)"
		" values ('nobody', 'x', 10, 0, 1)")
	PROXY.admin('load pgsql users to runtime')
	with PROXY.session('nobody', 'x') as session:
		session.send(query('') * 20000)
		for _ in range(20000):
			equal(kinds(session.read_ready(30)), 'EZ')
	assert PROXY.running()


def test_client_that_sends_without_end_and_reads_nothing_is_held_up():
	before = PROXY.rss_kb()
	session = PROXY.session()
	piece = (parse("select repeat('x', 1000)") + bind() + execute()) * 500
	stop = threading.Event()

	def send():
		try:
			while not stop.is_set():
				session.send(piece)
		except OSError:
			pass
	sender = threading.Thread(target=send, daemon=True)
	sender.start()
	time.sleep(3)
	grown = PROXY.rss_kb() - before
	stop.set()
	session.abort()
	sender.join(10)
	assert grown < PROXY.may_grow_kb(64), 'the proxy grew by %d kB' % grown
	with PROXY.session() as other:
		eventually(lambda: other.scalar('select 1') == '1', what='the connection is free again')


# ---- the proxy's own settings ----

def test_settings_of_the_proxy_work_in_both_protocols():
	show = 'show polarproxy.route_mode'
	with PROXY.session() as session:
		for ask in (session.sql, session.extended):
			equal(ask("set polarproxy.route_mode = 'primary'").tag, 'SET')
			equal([session.scalar(show), session.extended(show).scalar], ['primary', 'primary'])
			equal(ask('reset polarproxy.route_mode').tag, 'RESET')
			equal([session.scalar(show), session.extended(show).scalar], ['auto', 'auto'])
			expect_error('22023', ask, "set polarproxy.route_mode = 'nowhere'")
			expect_error('42704', ask, 'set polarproxy.nothing = 1')
		# Prepared first, run later: it acts when it is run.
		equal(kinds(run(session, parse("set polarproxy.route_mode = 'replica'", 's') +
			describe('S', 's') + sync())), '1tnZ')
		equal(session.scalar(show), 'auto')
		equal(kinds(run(session, bind((), 's') + execute() + sync())), '2CZ')
		equal(session.scalar(show), 'replica')
		# Where it could not act it is refused, never ignored.
		for text in ("set polarproxy.route_mode = 'primary'; select 1",
				"select set_config('polarproxy.route_mode', 'primary', false)"):
			expect_error('0A000', session.sql, text)
		equal(kinds(run(session, one("set polarproxy.route_mode = 'primary'") + one('select 1') +
			sync())), 'EZ')
		equal(session.scalar(show), 'replica')
	with PROXY.session(**{'polarproxy.route_mode': 'primary'}) as session:
		equal(session.scalar(show), 'primary')
	with PROXY.session(options='-c polarproxy.route_mode=replica') as session:
		equal(session.scalar(show), 'replica')
	expect_error('22023', PROXY.session, **{'polarproxy.route_mode': 'nowhere'})


if __name__ == '__main__':
	runner.main(globals())
