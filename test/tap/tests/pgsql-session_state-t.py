#!/usr/bin/python3
"""State of sessions that share server connections: a session is bound to its connection while something
of it is there and no longer, and its parameters follow it wherever its statements run.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error  # noqa: E402
from cluster import Cluster, Proxy, wire  # noqa: E402
from cluster.wire import bind, execute, parse, query, sync  # noqa: E402

TIMEOUT = 240
CLUSTER = PROXY = None


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 0)
	CLUSTER.primary.sql('create table plain (i int); grant all on plain to app;'
		'grant all on schema public to app; create role other; grant other to app;'
		'create function makes_temp() returns void language plpgsql as'
		" $$ begin create temp table made (i int); end $$;"
		'create function makes_nothing() returns int language sql as $$ select 1 $$;'
		'create function locks() returns void language plpgsql as'
		' $$ begin perform pg_advisory_lock(31); end $$;'
		'create function unlocks() returns void language plpgsql as'
		' $$ begin perform pg_advisory_unlock_all(); end $$;'
		'create procedure sets_and_commits() language plpgsql as'
		" $$ begin perform set_config('work_mem', '7MB', false); commit; end $$;"
		'create function turns(n int) returns text language plpgsql as'
		" $$ begin return set_config('work_mem', n || 'kB', false); end $$", 'app')
	PROXY = Proxy(CLUSTER, pair=None, workers=1, servers=[{'address': '127.0.0.1',
		'port': CLUSTER.primary.port, 'hostgroup': 10, 'max_connections': 1}],
		variables={'connect_timeout_server_max': '2000'})


def teardown():
	PROXY.stop()
	CLUSTER.close()


def pin(session):
	return PROXY.admin('select pin_reasons from stats_pgsql_processlist where SessionID = %d' %
		session.pid).rows[0][0]


def run(session, step):
	session.send(step if isinstance(step, bytes) else query(step))
	return session.read_ready(15)


def one(sql):
	return parse(sql) + bind() + execute()


# ---- bound and free again ----

TEMP = 'create temp table t (i int)'
LOCK = 'select pg_advisory_lock(7)'
HELD = 'declare c cursor with hold for select 1'

# What a session does, step by step, and whether it is bound behind each of them.
BINDS = {
	'temporary table, dropped': [(TEMP, True), ('insert into t values (1)', True), ('select * from t', True),
		('drop table t', False)],
	'two of them': [(TEMP, True), ('create temp table u (i int)', True), ('drop table t', True),
		('drop table if exists u, nothing', False)],
	'SELECT INTO TEMP': [('select 1 as i into temp t', True), ('drop table pg_temp.t', False)],
	'CREATE TEMP AS': [('create temp table t as select 1', True), ('discard temp', False)],
	'temporary view': [('create temp view v as select 1', True), ('drop view v', False)],
	'temporary sequence': [('create temp sequence s', True), ('drop sequence s', False)],
	'by its schema': [('create table pg_temp.t (i int)', True), ('drop table t', False)],
	'function in pg_temp': [('create function pg_temp.f() returns int language sql as $$ select 1 $$', True),
		('drop function pg_temp.f()', False)],
	'ON COMMIT DROP': [('begin', True), ('create temp table t (i int) on commit drop', True),
		('commit', False)],
	'rolled back': [('begin', True), (TEMP, True), ('rollback', False)],
	'to a savepoint': [('begin', True), ('savepoint a', True), (TEMP, True), ('rollback to a', True),
		('commit', False)],
	'DROP rolled back': [(TEMP, True), ('begin', True), ('drop table t', True), ('rollback', True),
		('drop table t', False)],
	'creation that fails': [('create temp table t (i nothing)', False)],
	'creation in a pipeline that fails': [(one(TEMP) + one('select 1/0') + sync(), False)],
	'in a batch': [(TEMP + '; select 1', True), ('select 1; drop table t', False)],
	'DISCARD ALL': [(TEMP, True), (LOCK, True), (HELD, True), ('discard all', False)],
	'lock': [(LOCK, True), ('select pg_advisory_unlock(7)', False)],
	'lock taken twice': [(LOCK, True), (LOCK, True), ('select pg_advisory_unlock(7)', True),
		('select pg_advisory_unlock(7)', False)],
	'shared lock': [('select pg_advisory_lock_shared(7)', True),
		('select pg_advisory_unlock_shared(7)', False)],
	'unlock of another': [(LOCK, True), ('select pg_advisory_unlock(8)', True),
		('select pg_advisory_unlock_all()', False)],
	'lock that was tried': [('select pg_try_advisory_lock(7)', True),
		('select pg_advisory_unlock(7)', False)],
	'lock rolled back stays': [('begin', True), (LOCK, True), ('rollback', True),
		('select pg_advisory_unlock_all()', False)],
	'lock of the transaction': [('begin', True), ('select pg_advisory_xact_lock(7)', True),
		('commit', False)],
	'lock and unlock at once': [('select pg_advisory_lock(7), pg_advisory_unlock(7)', False)],
	'lock of no row': [('select pg_try_advisory_lock(7) where false', False)],
	'held cursor': [(HELD, True), ('fetch c', True), ('close c', False)],
	'held cursor of a transaction': [('begin', True), (HELD, True), ('commit', True), ('fetch c', True),
		('close all', False)],
	'held cursor rolled back': [('begin', True), (HELD, True), ('rollback', False)],
	'two held cursors': [(HELD, True), ('declare d cursor with hold for select 2', True),
		('close c', True), ('close d', False)],
	'plain cursor': [('begin', True), ('declare c cursor for select 1', True), ('commit', False)],
	'temporary table of a function': [('select makes_temp()', True), ('drop table made', False)],
	'in a DO block': [('do $$ begin create temp table t (i int); end $$', True), ('drop table t', False)],
	'lock of a function': [('select locks()', True), ('select unlocks()', False)],
	'lock of a function, rolled back': [('begin', True), ('select locks()', True), ('rollback', True),
		('select unlocks()', False)],
	'function that leaves nothing': [('select makes_nothing()', False)],
	'procedure that commits': [('call sets_and_commits()', False)],
	'SET ROLE': [('set role other', True), ('reset role', False)],
	'SET ROLE NONE': [('set role other', True), ('set role none', False)],
	'SET LOCAL ROLE': [('begin', True), ('set local role other', True), ('commit', False)],
	'role in a function': [("do $$ begin set role other; end $$", True), ('reset role', False)],
	'SET ROLE rolled back': [('begin', True), ('set role other', True), ('rollback', False)],
	'sequence': [('create sequence q; grant all on q to app', False), ("select nextval('q')", True),
		("select currval('q')", True), ('discard sequences', False), ('drop sequence q', False)],
}


def test_session_is_bound_while_something_is_there():
	for name, steps in BINDS.items():
		with PROXY.session() as a:
			for step, bound in steps:
				run(a, step)
				if a.status == 'I':
					equal(pin(a) is not None, bound, '%s: behind %r' % (name, step))
			with PROXY.session() as b:
				# The only connection is free, and nothing of it is left.
				equal(b.scalar("select count(*) from pg_locks where locktype = 'advisory'"), '0', name)
				equal(b.scalar("select count(*) from pg_class where relnamespace = pg_my_temp_schema()"),
					'0', name)
				equal(b.scalar('select count(*) from pg_cursors'), '0', name)
				equal(b.scalar('select current_user'), 'app', name)


def test_session_that_is_bound_uses_what_it_made():
	with PROXY.session() as a:
		a.sql(TEMP)
		for i in range(5):
			a.sql('insert into t values (%d)' % i)
		equal(a.scalar('select count(*) from t'), '5')
		expect_error('53300', PROXY.session().sql, 'select 1')  # the one connection is busy
		equal(a.scalar('select count(*) from t'), '5')


def test_bound_session_that_leaves_frees_everything():
	a = PROXY.session()
	a.sql(TEMP)
	a.sql(LOCK)
	a.close(polite=False)
	with PROXY.session() as b:
		equal(b.scalar('select pg_try_advisory_lock(7)'), 't')
		b.sql('select pg_advisory_unlock_all()')


def test_nothing_hidden_runs_in_the_clients_transaction():
	before = int(PROXY.global_stats()['Backend_state_checks'])
	with PROXY.session() as a:
		a.sql('begin')
		for statement in ('select locks()', 'select pg_advisory_unlock(31)', TEMP, 'drop table t',
				'select pg_try_advisory_lock(9)'):
			a.sql(statement)
		equal(int(PROXY.global_stats()['Backend_state_checks']), before)
		expect_error('22012', a.sql, 'select 1/0')
		a.sql('rollback')
		a.sql('select pg_advisory_unlock_all()')
	after = int(PROXY.global_stats()['Backend_state_checks'])
	assert before < after <= before + 2, (before, after)


def test_ordinary_statements_are_not_looked_after():
	before = int(PROXY.global_stats()['Backend_state_checks'])
	with PROXY.session() as a:
		for statement in ('select 1', 'insert into plain values (1)', 'begin', 'update plain set i = 2',
				'commit', "set work_mem = '5MB'", 'reset work_mem', 'select now()', 'delete from plain',
				'drop table if exists nothing', 'select 1; select 2', "select set_config('a.b', 'c', false)"):
			a.sql(statement)
	equal(int(PROXY.global_stats()['Backend_state_checks']), before)


def test_function_that_leaves_nothing_is_soon_left_alone():
	CLUSTER.primary.sql('create function quiet() returns int language sql as $$ select 1 $$', 'app')
	before = int(PROXY.global_stats()['Backend_state_checks'])
	with PROXY.session() as a:
		for _ in range(200):
			a.sql('select quiet()')
	checks = int(PROXY.global_stats()['Backend_state_checks']) - before
	assert 16 <= checks <= 24, checks


# ---- parameters ----

SETS = {
	'plain': ("set work_mem = '5MB'", 'work_mem', '5MB'),
	'SESSION': ('set session work_mem to 5000', 'work_mem', '5000kB'),
	'list': ("set search_path = \"$user\", 'My Schema', public", 'search_path',
		'"$user", "My Schema", public'),
	'empty list': ("select set_config('search_path', '', false)", 'search_path', ''),
	'empty element': ("set search_path = ''", 'search_path', '""'),
	'SET SCHEMA': ("set schema 'pg_catalog'", 'search_path', 'pg_catalog'),
	'SET NAMES': ("set names 'latin1'", 'client_encoding', 'LATIN1'),
	'TIME ZONE by name': ("set time zone 'Asia/Tokyo'", 'timezone', 'Asia/Tokyo'),
	'TIME ZONE by number': ('set time zone 3', 'timezone', '<+03>-03'),
	'TIME ZONE interval': ("set time zone interval '+02:30' hour to minute", 'timezone',
		'<+02:30>-02:30'),
	'custom': ("set my.own = 'a''b\\c'", 'my.own', "a'b\\c"),
	'boolean': ('set enable_seqscan = no', 'enable_seqscan', 'off'),
	'number': ('set extra_float_digits = -3', 'extra_float_digits', '-3'),
	'enumeration': ('set bytea_output = escape', 'bytea_output', 'escape'),
	'characteristics': ('set session characteristics as transaction isolation level serializable',
		'default_transaction_isolation', 'serializable'),
	'set_config()': ("select set_config('work_mem', '6MB', false)", 'work_mem', '6MB'),
	'set_config() of many': ("select 1, set_config('work_mem', '6MB', false),"
		" set_config('lock_timeout', '5', false)", 'lock_timeout', '5ms'),
	'in a batch': ("set lock_timeout = 1; set work_mem = '7MB'; select 1", 'work_mem', '7MB'),
	'in an empty transaction': ("begin; set work_mem = '7MB'; commit", 'work_mem', '7MB'),
	'function': ('select turns(4444)', 'work_mem', '4444kB'),
	'plan_cache_mode': ("set plan_cache_mode = 'force_custom_plan'", 'plan_cache_mode',
		'force_custom_plan'),
	'read only': ('set default_transaction_read_only = on', 'default_transaction_read_only', 'on'),
	'DateStyle': ("set datestyle = 'german'", 'datestyle', 'German, DMY'),
}


def test_parameter_follows_its_session_and_no_other():
	for name, (statement, parameter, wanted) in SETS.items():
		with PROXY.session() as a, PROXY.session() as b:
			custom = '.' in parameter
			asked = "select current_setting('%s', true)" % parameter
			default = b.scalar(asked)
			a.sql(statement)
			equal(pin(a), None, name)
			for _ in range(2):
				other = b.scalar(asked)
				assert other == default or (custom and not other), '%s: another client has %r' % (
					name, other)
				equal(a.scalar(asked), wanted, name)
			a.sql('reset ' + parameter)
			equal(b.scalar(asked) or None, default or None, name)
			equal(a.scalar(asked) or None, default or None, name + ': RESET')
			a.sql(statement)
			b.scalar('select 1')
			a.sql('set %s to default' % parameter)
			b.scalar('select 1')
			equal(a.scalar(asked) or None, default or None, name + ': DEFAULT')
			a.sql(statement)
			b.scalar('select 1')
			a.sql('reset all')
			b.scalar('select 1')
			equal(a.scalar(asked) or None, default or None, name + ': RESET ALL')


def test_other_spellings_of_a_value_cost_nothing():
	syncs = lambda: int(PROXY.global_stats()['Backend_parameter_sync'])  # noqa: E731
	with PROXY.session() as plain, PROXY.session(datestyle='ISO', client_encoding='utf-8',
			standard_conforming_strings='true') as spelled, PROXY.session(datestyle='iso, mdy',
			client_encoding='UNICODE') as other:
		for session in (plain, spelled, other):
			session.sql('select 1')
		before = syncs()
		for _ in range(5):
			for session in (plain, spelled, other):
				session.sql('select 1')
		equal(syncs(), before)
		equal(spelled.scalar('show datestyle'), 'ISO, MDY')


def test_set_transaction_is_not_kept():
	with PROXY.session() as a, PROXY.session() as b:
		for statement in ('set transaction isolation level serializable', 'set transaction read only',
				"set transaction_read_only = on"):
			a.sql('begin')
			a.sql(statement)
			a.sql('commit')
			b.sql('select 1')
			equal(a.scalar('show transaction_isolation'), 'read committed')
			equal(a.scalar('show transaction_read_only'), 'off')


def test_value_in_another_encoding_is_sent_in_it():
	for encoding in ('LATIN1', 'WIN1252', 'EUC_JP'):
		text = '日本' if encoding == 'EUC_JP' else 'grün'
		raw = text.encode({'LATIN1': 'latin-1', 'WIN1252': 'cp1252', 'EUC_JP': 'euc_jp'}[encoding])
		with PROXY.session(client_encoding=encoding) as a, PROXY.session() as b:
			run(a, wire.frame('Q', b"set my.word = '" + raw + b"'\0"))
			for _ in range(2):
				equal(b.scalar("select coalesce(current_setting('my.word', true), '')"), '')
				rows = [m for k, m in run(a, "select current_setting('my.word')") if k == 'D']
				equal(wire.row_values(rows[0])[0], raw, encoding)
				equal(a.scalar("select current_setting('my.word') = '%s'" % 'x'), 'f')


def test_parameter_that_the_server_refuses_can_be_undone():
	for undo in ('reset default_text_search_config', 'set default_text_search_config to default', 'reset all',
			'discard all', "set default_text_search_config = 'pg_catalog.simple'"):
		CLUSTER.primary.sql('create text search configuration public.passing (copy = simple)', 'app')
		with PROXY.session() as a, PROXY.session() as b:
			a.sql("set default_text_search_config = 'public.passing'")
			b.sql('select 1')
			equal(a.scalar('show default_text_search_config'), 'public.passing')
			b.sql('select 1')
			CLUSTER.primary.sql('drop text search configuration public.passing', 'app')
			for _ in range(2):
				expect_error('22023', a.sql, 'select 1')
				equal(a.status, 'I')
				equal(b.scalar('select 2'), '2', 'another client')
			run(a, undo)
			b.sql('select 1')
			equal(a.scalar('select 3'), '3', undo)
			equal(b.scalar('show default_text_search_config'), 'pg_catalog.english', undo)


# ---- startup parameters ----

def login_error(connect, **params):
	try:
		connect(**params).close()
	except wire.WireError as e:
		return e.fields
	return None


def direct(**params):
	return CLUSTER.primary.session('app', 'app', 'app-secret', **params)


WRONG = [{'nope': '1'}, {'work_mem': 'much'}, {'work_mem': '1'}, {'client_min_messages': 'loud'},
	{'options': '-c nope=1'}, {'options': '-c work_mem=much'}, {'options': '--work-mem=much'},
	{'timezone': 'Nowhere/Town'}, {'datestyle': 'odd'}, {'shared_buffers': '1GB'},
	{'log_statement': 'all'}, {'role': 'nobody'}, {'client_encoding': 'KLINGON'},
	{'options': '-c search_path=a,,b'}, {'default_transaction_isolation': 'none'}]


def test_wrong_startup_parameter_is_refused_at_the_login():
	for params in WRONG:
		for _ in range(2):
			told, wanted = login_error(PROXY.session, **params), login_error(direct, **params)
			assert wanted, params
			assert told, 'accepted: %s' % params
			for field in 'SVCMDH':
				equal(told.get(field), wanted.get(field), '%s: field %s' % (params, field))


RIGHT = [({'datestyle': 'german'}, 'datestyle'), ({'timezone': 'utc'}, 'timezone'),
	({'client_encoding': 'latin-1'}, 'client_encoding'), ({'intervalstyle': 'ISO_8601'}, 'intervalstyle'),
	({'options': '-c work_mem=9MB'}, 'work_mem'), ({'options': '-cwork_mem=9MB'}, 'work_mem'),
	({'options': '--work-mem=9MB'}, 'work_mem'), ({'options': '-c my.own=a\\ b\\\\c'}, 'my.own'),
	({'statement_timeout': '5s'}, 'statement_timeout'), ({'extra_float_digits': '2'}, 'extra_float_digits'),
	({'search_path': 'a, "B c"'}, 'search_path'), ({'application_name': ''}, 'application_name'),
	({'plan_cache_mode': 'force_custom_plan'}, 'plan_cache_mode'), ({'role': 'other'}, 'role'),
	({'bytea_output': 'escape', 'options': '-c geqo=off'}, 'geqo'),
	({'default_transaction_read_only': 'yes'}, 'default_transaction_read_only')]


def test_startup_parameter_holds_and_is_reported_as_by_the_server():
	for params, name in RIGHT:
		for _ in range(2):
			with PROXY.session(**params) as a, direct(**params) as b:
				told = {k: v for k, v in b.parameters.items() if v != 'direct'}
				equal({k: v for k, v in a.parameters.items() if k in told}, told, str(params))
				equal(a.scalar("select current_setting('%s')" % name),
					b.scalar("select current_setting('%s')" % name), str(params))
			with PROXY.session(application_name='direct') as c, direct() as d:
				asked = "select coalesce(current_setting('%s', true), '')" % name
				equal(c.scalar(asked), d.scalar(asked), 'the next client, %s' % params)


def test_login_asks_no_server_twice():
	def checks():
		return int(PROXY.global_stats()['Startup_parameter_checks'])
	before = checks()
	for _ in range(10):
		PROXY.session(work_mem='8765kB', application_name='one of many').close()
	equal(checks(), before + 1)
	for i in range(10):
		PROXY.session(application_name='number %d' % i, client_encoding='utf-8').close()
	equal(checks(), before + 1)


def test_login_without_a_server_is_checked_later():
	with Proxy(servers=[{'address': '127.0.0.1', 'port': 1, 'hostgroup': 10}], pair=None,
			workers=1) as proxy:
		start = time.monotonic()
		proxy.session(work_mem='much').close()
		assert time.monotonic() - start < 5


def test_settings_of_the_proxy_are_part_of_the_transaction():
	with PROXY.session() as a:
		def mode():
			return a.scalar('show polarproxy.route_mode')
		a.sql("set polarproxy.route_mode = 'replica'")
		a.sql('begin')
		a.sql("set polarproxy.route_mode = 'primary'")
		equal(mode(), 'primary')
		a.sql('rollback')
		equal(mode(), 'replica')
		a.sql('begin')
		a.sql("set polarproxy.route_mode = 'primary'")
		a.sql('commit')
		equal(mode(), 'primary')
		a.sql('begin')
		a.sql("set local polarproxy.route_mode = 'auto'")
		equal(mode(), 'auto')
		a.sql('commit')
		equal(mode(), 'primary')
		a.sql('begin')
		a.sql('savepoint s')
		a.sql("set polarproxy.route_mode = 'auto'")
		a.sql('rollback to s')
		equal(mode(), 'primary')
		a.sql('commit')
		equal(mode(), 'primary')


if __name__ == '__main__':
	runner.main(globals())
