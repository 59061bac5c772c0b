#!/usr/bin/python3
"""Prepared statements of clients that share server connections: by SQL (PREPARE, EXECUTE), by the
protocol, and by both under one name. Two clients play a script on two server connections of their
own, and then through the proxy on one or two shared ones: each must be told the same.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
import small_pools  # noqa: E402
from checks import equal, expect_error  # noqa: E402
from cluster.wire import (bind, close, describe, execute, flush, parse, query,  # noqa: E402
	sync)

TIMEOUT = 240
STACKS = []  # (name, cluster, proxy): one shared connection, two, and a pair with read/write split


def setup():
	STACKS.extend(small_pools.make_stacks('create table box (id int primary key, v text);'
		"insert into box select i, 'v' || i from generate_series(1, 20) i;"
		'create table shape (a int); insert into shape values (1);'
		'create table log (i int); create sequence numbers;'
		'create function drops() returns void language plpgsql as '
		"$$ begin execute 'deallocate all'; end $$;"
		'create function makes() returns void language plpgsql as '
		"$$ begin execute 'prepare unseen as select 66'; end $$;"
		'create function runs(text) returns text language plpgsql as '
		"$$ declare r text; begin execute 'execute ' || $1 into r; return r; end $$;"))


def teardown():
	small_pools.close_stacks(STACKS)


def compare(steps, before=None, stacks=None, rounds=2):
	small_pools.compare(stacks or STACKS, steps, before, rounds)


def pins(proxy, session):
	return proxy.admin('select pin_reasons from stats_pgsql_processlist where SessionID = %d' %
		session.pid).rows[0][0]


def one(sql, values=(), statement=''):
	return parse(sql) + bind(values) + describe('P') + execute()


# ---- SQL: one name, two clients ----

def test_same_name_of_two_clients_never_meets():
	compare([('a', 'prepare q as select 1 as one'), ('b', "prepare q(text) as select $1 || '!' as two"),
		('a', 'execute q'), ('b', "execute q('x')"), ('a', 'execute q'), ('b', 'execute q(1)'),
		('c', 'execute q'), ('a', 'prepare q as select 3'), ('a', 'deallocate q'), ('a', 'execute q'),
		('b', "execute q('y')"), ('a', 'prepare q as select 4'), ('a', 'execute q'),
		('b', 'deallocate prepare q'), ('b', 'deallocate q'), ('a', 'execute q'), ('c', 'execute q')])


def test_types_values_and_wrong_arguments():
	compare([('a', 'prepare p(int, text, numeric(5,2), int[]) as select $1 + 1, $2, $3, $4'),
		('b', 'select 1'), ('a', "execute p(1, 'x', 1.255, '{1,2}')"), ('a', 'execute p(1)'),
		('a', "execute p('no', 'x', 1, '{}')"), ('b', 'prepare p(nope) as select 1'),
		('b', 'prepare p as select $1'), ('a', "execute p(2, null, 2, null)"),
		('a', 'prepare u as select $1::int + $2'), ('b', 'select 2'), ('a', 'execute u(1, 2)'),
		('a', 'prepare "Q q" as select \'quoted\''), ('b', 'prepare "q Q" as select 2'),
		('a', 'execute "Q q"'), ('b', 'execute "Q q"'), ('a', 'EXECUTE P(1, null, null, null)')])


def test_errors_of_prepare_and_their_positions():
	compare([('a', 'prepare e as select * from nope'), ('a', 'prepare e as selec 1'),
		('a', '  /* c */ prepare e as select nocolumn from box'), ('a', 'execute e'),
		('a', 'prepare e as create table x (i int)'), ('a', 'prepare e as select 1/0 from box'),
		('a', 'execute e'), ('a', 'prepare e2(int) as select 10 / $1'), ('b', 'select 1'),
		('a', 'execute e2(0)'), ('a', 'execute e2(nocolumn)'), ('a', 'deallocate nope'),
		('a', 'deallocate all'), ('a', 'execute e2(1)')])


def test_writes_by_execute():
	compare([('a', "prepare w(int, text) as insert into log values ($1) returning i"),
		('b', 'prepare w as delete from log where i = 1 returning *'), ('a', "execute w(1, '')"),
		('a', "execute w(2, '')"), ('b', 'execute w'), ('a', 'select * from log'), ('b', 'execute w'),
		('a', 'prepare s as select count(*) from log'), ('a', "execute w(3, '')"), ('a', 'execute s'),
		('b', 'prepare u as update log set i = i + 10'), ('b', 'execute u'), ('a', 'execute s'),
		('a', 'prepare n as select nextval($$numbers$$) > 0'), ('b', 'select 1'), ('a', 'execute n'),
		('a', "select currval('numbers') > 0")], before='truncate log')


def test_prepare_is_no_part_of_a_transaction():
	compare([('a', 'begin'), ('a', 'prepare t as select 7'), ('a', 'rollback'), ('b', 'select 1'),
		('a', 'execute t'), ('a', 'begin'), ('a', 'deallocate t'), ('a', 'rollback'), ('a', 'execute t'),
		('a', 'begin'), ('a', 'prepare t as select 8'), ('a', 'select 1/0'), ('a', 'execute t'),
		('a', 'prepare x as select 1'), ('a', 'deallocate t'), ('a', 'deallocate all'),
		('a', 'rollback'), ('b', 'prepare t as select 9'), ('a', 'execute t'), ('a', 'execute x'),
		('a', 'begin'), ('a', 'savepoint s'), ('a', 'prepare t as select 10'), ('a', 'rollback to s'),
		('a', 'execute t'), ('a', 'commit'), ('b', 'execute t')])


def test_explain_and_create_table_as_execute():
	compare([('a', 'prepare q(int) as select * from box where id < $1'), ('b', 'prepare q as select 1'),
		('a', 'explain (costs off) execute q(5)'), ('b', 'explain (costs off) execute q'),
		('a', 'explain (costs off, analyze, timing off, summary off, buffers off) execute q(3)'),
		('a', 'create table made as execute q(3)'), ('a', 'select count(*) from made'),
		('b', 'execute q'), ('a', 'explain (costs off) create table made2 as execute q(3)'),
		('a', 'prepare i(int) as insert into log values ($1)'),
		('a', 'explain (costs off) execute i(4)'), ('a', 'select count(*) from log'),
		('a', 'explain (costs off, analyze, timing off, summary off) execute i(4)'),
		('a', 'select count(*) from log')], before='truncate log; drop table if exists made')


def test_several_statements_in_one_text():
	compare([('a', 'select 1 ; prepare pq as select 2'), ('b', 'prepare pq as select 3; select 4'),
		('a', 'execute pq; select 5'), ('b', 'execute pq; execute pq'), ('a', 'deallocate pq; execute pq'),
		('a', 'execute pq'), ('b', 'execute pq; deallocate pq; prepare pq as select 6; execute pq'),
		('a', 'execute pq'), ('b', 'execute pq'), ('a', 'prepare a1 as select 1; select 1/0'),
		('a', 'execute a1'), ('a', 'prepare a2 as select 1/0; execute a2; prepare a3 as select 3'),
		('a', 'execute a3'), ('a', 'execute a2'), ('b', 'deallocate all; prepare z as select 9'),
		('b', 'execute z'), ('b', 'execute pq'), ('a', 'execute a1'),
		('a', 'begin; prepare a4 as select 4; commit; execute a4'), ('b', 'execute a4'), ('a', 'execute a4')])


def test_deallocate_all_and_discard_all():
	for text in ('deallocate all', 'discard all', 'deallocate prepare all', 'select 1; deallocate all'):
		compare([('a', 'prepare q as select 1'), ('b', 'prepare q as select 2'),
			('a', parse('select 5', 'p') + sync()), ('b', parse('select 5', 'p') + sync()),
			('a', text), ('a', 'execute q'), ('b', 'execute q'),
			('a', bind((), 'p') + execute() + sync()), ('b', bind((), 'p') + execute() + sync()),
			('a', 'prepare q as select 3'), ('a', parse('select 6', 'p') + sync()), ('b', 'execute q'),
			('a', 'execute q'), ('a', bind((), 'p') + execute() + sync())])


def test_unknown_code_meets_the_names_of_its_client():
	compare([('a', "prepare q as select 'of a'"), ('b', "prepare q as select 'of b'"),
		('a', "select runs('q')"), ('b', "select runs('q')"), ('c', "select runs('q')"),
		('b', 'execute q'), ('c', one("select runs('q')") + sync()), ('a', one("select runs('q')") + sync())])
	# A DO block keeps its connection from then on.
	compare([('a', "prepare q as select 'of a'"), ('b', "prepare q as select 'of b'"),
		('a', "do $$ begin execute 'execute q'; end $$"), ('b', "select runs('q')"),
		('c', "do $$ begin execute 'execute q'; end $$")], stacks=STACKS[1:])


def test_names_dropped_unseen_come_back():
	"""Not as the server: there the names would be gone. The next use outside a transaction works."""
	for name, cluster, proxy in STACKS[:2]:
		with proxy.session() as a, proxy.session() as b:
			a.sql('prepare q as select 1')
			a.send(parse('select 2', 'p') + sync())
			a.read_ready()
			b.sql('select drops()')
			equal(a.scalar('execute q'), '1', name)
			a.send(bind((), 'p') + execute() + sync())
			equal([k for k, _ in a.read_ready()], list('2DCZ'), name)


def test_name_made_unseen_is_not_the_next_clients():
	proxy = STACKS[0][2]
	with proxy.session() as a, proxy.session() as b:
		a.sql('select makes()')
		expect_error('26000', b.sql, 'execute unseen')
		a.sql('select makes()')
		b.sql('prepare unseen as select 1')
		equal(b.scalar('execute unseen'), '1')


# ---- one set of names for SQL and protocol ----

def test_names_of_sql_and_protocol_are_one():
	run_q = bind((), 'q') + describe('P') + execute() + sync()
	compare([('a', 'prepare q as select 1 as x'), ('b', parse('select 2 as y', 'q') + sync()),
		('a', run_q), ('b', 'execute q'), ('a', 'execute q'), ('b', run_q),
		('a', parse('select 3', 'q') + sync()), ('b', 'prepare q as select 4'),
		('a', describe('S', 'q') + sync()), ('b', describe('S', 'q') + sync()),
		('a', close('S', 'q') + sync()), ('a', 'execute q'), ('a', run_q), ('b', 'deallocate q'),
		('b', run_q), ('b', 'execute q'), ('b', 'prepare q as select 5'), ('b', run_q),
		('a', parse('select $1::int', 'q', (23,)) + sync()), ('a', 'execute q(9)'), ('b', 'execute q'),
		('a', 'explain (costs off) execute q(9)'), ('a', bind(('8',), 'q') + execute() + sync())])


def test_prepare_and_execute_as_messages():
	compare([('a', one('prepare q(int) as select $1 * 2') + sync()),
		('b', one('prepare q as select 1, 2') + sync()), ('a', one('execute q(4)') + sync()),
		('b', one('execute q') + sync()), ('a', parse('execute q(5)', 'x') + describe('S', 'x') + sync()),
		('b', parse('execute q', 'x') + describe('S', 'x') + sync()),
		('a', bind((), 'x') + execute() + sync()), ('b', bind((), 'x') + describe('P') + execute() + sync()),
		('a', one('deallocate q') + sync()), ('a', one('execute q(4)') + sync()),
		('b', bind((), 'x') + execute() + sync()), ('a', one('deallocate q') + sync()),
		('b', one('discard all') + sync()), ('b', one('execute q') + sync())])


def test_pipelines_with_names():
	compare([('b', 'prepare q as select 99'),
		('a', one('prepare q as select 1') + one('execute q') + one('deallocate q') +
			one('prepare q as select 2') + one('execute q') + sync()), ('b', 'execute q'),
		('a', parse('select 3', 'm') + bind((), 'm') + execute() + one('deallocate m') +
			parse('select 4', 'm') + bind((), 'm') + execute() + one('execute m') + sync()),
		('a', one('deallocate all') + parse('select 5', 'm') + bind((), 'm') + execute() + sync()),
		('a', bind((), 'm') + execute() + sync()), ('b', 'execute q'), ('a', 'execute q'),
		('a', one('prepare q as select 6') + one('select 1/0') + one('deallocate q') + sync()),
		('a', 'execute q'), ('a', one('select 1/0') + one('deallocate all') + sync()), ('a', 'execute q'),
		('a', bind((), 'm') + execute() + sync()),
		('a', parse('select 7', 'm2') + sync() + query('deallocate all') + parse('select 8', 'm2') +
			bind((), 'm2') + execute() + sync(), 3),
		('a', bind((), 'm2') + execute() + sync()), ('b', 'execute q')])


def test_query_behind_a_batch_without_sync():
	compare([('a', one('insert into log values (1)') + query('prepare k as select count(*) from log')),
		('b', 'prepare k as select 0'), ('a', 'execute k'), ('a', one('select 1') + query('execute k')),
		('b', one('begin') + query("set work_mem = '5MB'")), ('b', 'commit'), ('a', 'show work_mem'),
		('b', 'show work_mem'), ('b', one('select 1/0') + query('execute k') + sync()), ('b', 'execute k')],
		before='truncate log')


def test_deallocate_of_a_protocol_name():
	compare([('a', parse('select 1', 'pdo_stmt_1') + sync()), ('b', 'begin'),
		('b', 'select 1'), ('b', 'commit'),
		('a', 'begin'), ('a', 'deallocate pdo_stmt_1'), ('a', 'select 2'), ('a', 'commit'),
		('a', 'deallocate pdo_stmt_1'), ('a', bind((), 'pdo_stmt_1') + execute() + sync()),
		('b', parse('select 1', 'pdo_stmt_1') + sync()), ('b', one('deallocate pdo_stmt_1') + sync()),
		('b', bind((), 'pdo_stmt_1') + sync())], stacks=STACKS[1:])


# ---- plans that are out of date ----

def test_changed_result_is_prepared_anew():
	"""Not as the server, which refuses the statement for ever; in a transaction as the server, once."""
	def widen(server):
		server.sql('drop table shape; create table shape (a int); '
			'insert into shape values (1); grant all on shape to app', 'app')
	for name, cluster, proxy in STACKS[:2]:
		widen(cluster.primary)
		with proxy.session() as a, proxy.session() as b:
			a.sql('prepare s as select * from shape')
			a.send(parse('select * from shape', 'm') + bind((), 'm') + execute() + sync())
			a.read_ready()
			equal(a.sql('execute s').rows, [('1',)], name)
			cluster.primary.sql('alter table shape add b int default 2', 'app')
			equal(b.scalar('select 1'), '1')
			equal(a.sql('execute s').rows, [('1', '2')], name)
			cluster.primary.sql('alter table shape add c int default 3', 'app')
			for text in ('execute s', 'select 1; execute s'):
				a.sql('begin')
				if text == 'execute s':
					expect_error('0A000', a.sql, text)
				else:
					equal(a.sql(text).rows, [('1', '2', '3')], name)
				a.sql('rollback')
			a.sql('begin')
			a.send(bind((), 'm') + execute() + sync())
			assert any(k == 'E' for k, _ in a.read_ready()), name
			a.sql('rollback')
			a.send(bind((), 'm') + describe('P') + execute() + sync())
			equal(''.join(k for k, _ in a.read_ready()), '2TDCZ', name)


def test_changed_result_is_told_to_whoever_knows_the_old_columns():
	"""As the server: a driver that keeps the columns it was told would read the new rows by them."""
	for name, cluster, proxy in STACKS[:2]:
		cluster.primary.sql('drop table shape; create table shape (a int); insert into shape values (1);'
			' grant all on shape to app', 'app')
		with proxy.session() as a:
			use = bind((), 'm') + execute() + sync()
			a.send(parse('select * from shape', 'm') + describe('S', 'm') + flush())
			a.read_until('T', 15)
			a.send(use)
			equal(''.join(k for k, _ in a.read_ready()), '2DCZ', name)
			cluster.primary.sql('alter table shape add b int default 2', 'app')
			a.send(use)
			equal(''.join(k for k, _ in a.read_ready()), 'EZ', name)
			# It prepares anew, in the way of a driver, and is told of both columns.
			a.send(close('S', 'm') + parse('select * from shape', 'm') + describe('S', 'm') + flush())
			told = a.read_until('T', 15)
			equal(int.from_bytes(told[-1][1][:2], 'big'), 2, name)
			a.send(use)
			equal(''.join(k for k, _ in a.read_ready()), '2DCZ', name)


# ---- where they go, and what stays free ----

def test_prepared_read_goes_to_a_replica_and_nothing_is_pinned():
	_, cluster, proxy = STACKS[2]
	with proxy.session() as a:
		a.sql('prepare r(int) as select v from box where id = $1')
		equal(a.scalar('execute r(3)'), 'v3')
		equal(a.scalar('execute r(4)'), 'v4')
		route = a.scalar('show polarproxy.last_route')
		assert str(cluster.replicas[0].port) in route, route
		a.sql('prepare w as insert into log values (1)')
		a.sql('execute w')
		route = a.scalar('show polarproxy.last_route')
		assert str(cluster.primary.port) in route, route
		a.sql('prepare v as select nextval($$numbers$$)')
		a.sql('execute v')
		assert str(cluster.primary.port) in a.scalar('show polarproxy.last_route')
	with proxy.session() as a:
		a.sql('prepare r as select 1; prepare s as select 2')
		a.sql('execute r')
		a.sql('explain execute s')
		equal(pins(proxy, a), None)
		a.sql('prepare l as select pg_advisory_lock(5)')
		equal(pins(proxy, a), None)
		a.sql('execute l')
		assert 'advisory' in pins(proxy, a), pins(proxy, a)


def test_more_statements_than_a_connection_may_hold():
	_, cluster, proxy = STACKS[0]
	cluster.primary.sql('create or replace view held as select name from pg_prepared_statements;'
		' grant select on held to app', 'app')
	with proxy.session() as a, proxy.session() as b:
		for i in range(60):
			a.sql('prepare many%d as select %d' % (i, i))
			b.sql('prepare many%d as select -%d' % (i, i))
		for i in list(range(60)) * 2:
			equal(a.scalar('execute many%d' % i), str(i))
		equal(b.scalar('execute many7'), '-7')
		# Through a view nobody knows what is asked for, so it shows what the connection holds.
		held = int(a.scalar("select count(*) from held where name like 'many%'"))
		assert held <= 21, held
		# Who asks for the list by name gets the client's own, as a server would show it.
		equal(a.scalar("select count(*) from pg_prepared_statements where name like 'many%'"), '60')
		equal(b.scalar("select min(statement) from pg_prepared_statements where name = 'many7'"),
			'prepare many7 as select -7')


def test_closed_statements_are_used_again():
	proxy = STACKS[0][2]
	with proxy.session() as a:
		first = int(proxy.admin_scalar(
			"select Variable_Value from stats_pgsql_global where Variable_Name = 'Stmt_Max_Stmt_id'"))
		for _ in range(20):
			a.send(parse('select 4711', 'again') + bind((), 'again') + execute() + close('S', 'again') + sync())
			equal(''.join(k for k, _ in a.read_ready()), '12DC3Z')
		last = int(proxy.admin_scalar(
			"select Variable_Value from stats_pgsql_global where Variable_Name = 'Stmt_Max_Stmt_id'"))
		equal(last - first, 1)
		equal(a.scalar("select count(*) from pg_prepared_statements where statement = 'select 4711'"), '1')


def test_remembered_statements_are_bounded():
	proxy = STACKS[1][2]
	proxy.admin("set pgsql-max_stmts_cache = 128")
	proxy.admin('load pgsql variables to runtime')
	with proxy.session() as a:
		for i in range(600):
			a.send(parse('select %d as bounded' % i, 's') + close('S', 's') + sync())
			a.read_ready()
		cached = int(proxy.admin_scalar(
			"select Variable_Value from stats_pgsql_global where Variable_Name = 'Stmt_Cached'"))
		assert cached <= 128 + 16, cached
		memory = int(proxy.admin_scalar("select Variable_Value from stats_memory_metrics "
			"where Variable_Name = 'prepared_statement_memory'"))
		assert 0 < memory < 200000, memory
	proxy.admin("set pgsql-max_stmts_cache = 10000")
	proxy.admin('load pgsql variables to runtime')


if __name__ == '__main__':
	runner.main(globals())
