#!/usr/bin/python3
"""The extended protocol in every order of its messages, by two clients at a time: first each with a
server connection of its own, then through the proxy on one or two shared ones. Each client must be
told the same, message for message.
"""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
import small_pools  # noqa: E402
from checks import equal, same_lines  # noqa: E402
from cluster import wire  # noqa: E402
from cluster.wire import (bind, close, copy_data, copy_done, copy_fail, describe,  # noqa: E402
	execute, flush, frame, parse, query, sync, transcript)

TIMEOUT = 280
STACKS = []


def setup():
	STACKS.extend(small_pools.make_stacks('create table five (i int, t text);'
		"insert into five select g, 't' || g from generate_series(1, 5) g; create table sink (i int, t text);"
		'create procedure commits() language plpgsql as $$ begin commit; end $$;'))


def teardown():
	small_pools.close_stacks(STACKS)


def compare(steps, before='truncate sink', stacks=None, rounds=2):
	small_pools.compare(stacks or STACKS, steps, before, rounds)


def one(sql, values=(), name='', portal=''):
	return parse(sql, name) + bind(values, name, portal) + describe('P', portal) + execute(portal)


def call_function(oid, *values):
	body = struct.pack('!IHHH', oid, 1, 0, len(values))
	for value in values:
		body += struct.pack('!i', len(value)) + value.encode()
	return frame('F', body + struct.pack('!H', 0))


INT4_ABS = 1397
ALL = 'select i, t from five order by i'
INSERT = "insert into sink values (1, 'a')"


# ---- names of statements ----

def test_errors_about_names():
	compare([('a', parse('select 1', 's1') + sync()), ('b', parse('select 2', 's1') + sync()),
		('a', parse('select 3', 's1') + parse('select 4', 's1') + sync()),
		('a', close('S', 'nope') + sync()), ('a', describe('S', 'nope') + sync()),
		('a', bind((), 'nope') + sync()), ('a', close('P', 'nope') + sync()),
		('a', describe('P', 'nope') + sync()), ('a', execute('nope') + sync()),
		('b', bind((), 's1') + execute() + sync()), ('a', bind((), 's1') + execute() + sync()),
		('a', bind(('1',), 's1') + sync()), ('a', bind((), 's1') + execute() + sync())])


def test_failed_parse_leaves_nothing_behind():
	compare([('a', parse('selec 1', 'x') + sync()), ('a', bind((), 'x') + sync()),
		('a', parse('select 1', 'x') + sync()), ('a', bind((), 'x') + execute() + sync()),
		('b', parse('selec 1', 'x') + parse('select 2', 'x') + sync()), ('b', bind((), 'x') + sync()),
		('b', parse('selec 1') + sync()), ('b', bind() + sync()),
		('a', parse('select nocolumn from five', 'y') + sync()), ('a', 'begin'),
		('a', parse('selec 1', 'z') + sync()), ('a', parse('select 1', 'z') + sync()), ('a', 'rollback'),
		('a', parse('select 1', 'z') + sync()), ('a', bind((), 'z') + execute() + sync())])


def test_unnamed_statement_lives_on_after_sync():
	compare([('a', parse('select 11') + describe('S') + sync()), ('b', parse('select 22') + sync()),
		('a', bind() + execute() + sync()), ('b', bind() + execute() + sync()),
		('a', bind() + execute() + sync()), ('b', 'select 1'), ('b', bind() + execute() + sync()),
		('a', describe('S') + sync()), ('a', close('S') + sync()), ('a', bind() + execute() + sync()),
		('b', parse('select $1::int + 1', '', (23,)) + sync()), ('a', parse('select $1::text') + sync()),
		('b', bind(('41',)) + execute() + sync()), ('a', bind(('x',)) + execute() + sync()),
		('a', parse('selec') + sync()), ('a', bind() + sync()), ('b', bind(('1',)) + execute() + sync())])


def test_two_round_trips_of_a_driver():
	compare([('a', parse('select t from five where i = $1', 'p1') + describe('S', 'p1') + sync()),
		('b', parse('select i from five where t = $1', 'p1') + describe('S', 'p1') + sync()),
		('a', bind(('3',), 'p1') + execute() + sync()), ('b', bind(('t4',), 'p1') + execute() + sync()),
		('b', bind(('t5',), 'p1') + describe('P') + execute() + sync()),
		('a', bind((None,), 'p1') + execute() + sync()), ('a', close('S', 'p1') + sync()),
		('a', bind(('3',), 'p1') + sync()), ('b', bind(('t1',), 'p1') + execute() + sync())])


def test_replies_come_in_the_order_of_the_messages():
	compare([('a', parse('select 1', 'c1') + sync()), ('b', parse('select 1', 'c2') + sync()),
		('a', close('S', 'c1') + parse('select 2', 'c1') + close('P') + bind((), 'c1') + close('S', 'no') +
			execute() + close('S', 'c1') + parse('select 1', 'c1') + describe('S', 'c1') + sync()),
		('b', parse('select 1', 'c3') + close('S', 'c3') + parse('select 1', 'c3') + bind((), 'c3') +
			execute() + close('S', 'c3') + close('S', 'c3') + sync()),
		('a', close('S', 'c1') + close('S', 'c1') + sync()), ('a', parse('select 5') + close('S') + sync())])


# ---- values ----

def test_result_formats():
	sql = "select 1::int4, 'x'::text, 2.5::float8, null::int8, '\\x01ff'::bytea"
	steps = [('a', parse(sql, 'f') + sync()), ('b', parse(sql, 'f') + sync())]
	for formats in ((), (0,), (1,), (0, 1, 0, 1, 0), (1, 1, 1, 1, 1), (1, 0), (2,)):
		for client in 'ab':
			steps.append((client, bind((), 'f', '', (), formats) + describe('P') + execute() + sync()))
	steps += [('a', parse('select $1::int4 + $2::int4', 'g', (23, 23)) + sync()),
		('a', bind((b'\0\0\0\5', '6'), 'g', '', (1, 0), (1,)) + describe('P') + execute() + sync()),
		('b', 'select 1'), ('a', bind((b'\0\0\0\5', b'\0\0\0\1'), 'g', '', (1,)) + execute() + sync()),
		('a', bind((b'\0\5', b'\0\0\0\1'), 'g', '', (1,)) + execute() + sync()),
		('a', bind(('1', '2'), 'g', '', (0, 0, 0)) + execute() + sync())]
	compare(steps)


def test_many_parameters():
	for count in (1664, 32767, 65535):
		sql = 'select ' + '+'.join('$%d::int' % i for i in range(1, min(count, 1600) + 1))
		if count > 1664:
			sql = 'select count(*) from unnest(array[%s]) x' % ','.join(
				'$%d' % i for i in range(1, count + 1))
		compare([('a', parse(sql, '', (23,) * count) + bind(('1',) * count) + execute() + sync()),
			('b', 'select 1'), ('a', parse(sql, 'big', (23,) * count) + sync()),
			('a', bind(('2',) * count, 'big') + execute() + sync())], stacks=STACKS[:1], rounds=1)


# ---- portals ----

def test_portals_in_pieces():
	compare([('a', parse(ALL, 'p') + bind((), 'p', 'c1') + execute('c1', 2) + flush(), 's'),
		('a', execute('c1', 2) + flush(), 's'), ('a', execute('c1', 2) + sync()),
		('a', execute('c1') + sync()), ('b', parse(ALL) + bind() + execute('', 3) + sync()),
		('b', execute() + sync()), ('a', 'begin'), ('a', bind((), 'p', 'c1') + execute('c1', 3) + sync()),
		('a', execute('c1', 1) + sync()), ('a', bind((), 'p', 'c1') + sync()), ('a', 'rollback'), ('a', 'begin'),
		('a', bind((), 'p', 'c1') + execute('c1', 3) + sync()),
		('a', close('P', 'c1') + bind((), 'p', 'c1') + execute('c1', 4) + sync()),
		('a', 'fetch 1 from c1'), ('a', bind((), 'p') + execute('', 2) + sync()),
		('a', bind((), 'p') + execute('', 2) + sync()), ('a', execute('', 9) + sync()), ('a', 'commit'),
		('a', execute('c1') + sync())])


def test_two_portals_at_a_time():
	compare([('a', 'begin'), ('a', parse(ALL, 'p') + bind((), 'p', 'x') + bind((), 'p', 'y') +
		execute('x', 2) + execute('y', 1) + execute('x', 2) + describe('P', 'y') + execute('y') +
		execute('x') + sync()), ('a', 'savepoint s'), ('a', bind((), 'p', 'z') + execute('z', 1) + sync()),
		('a', 'rollback to s'), ('a', execute('z') + sync()), ('a', 'rollback'), ('b', 'select 1')])


def test_insert_returning_in_pieces():
	compare([('a', parse("insert into sink select i, t from five returning i") + bind() + execute('', 2) +
		sync()), ('b', 'select count(*) from sink'),
		('a', parse('with x as (delete from sink returning i) select i from x order by i') + bind() +
			execute('', 2) + execute('', 0) + sync()), ('a', 'select count(*) from sink')])


# ---- Flush, Sync, errors ----

def test_flush_without_sync():
	compare([('a', parse(ALL, 'd') + describe('S', 'd') + flush(), 'T'), ('a', bind((), 'd') + flush(), '2'),
		('a', execute() + flush(), 'C'), ('a', sync()), ('b', 'select 1'),
		('a', parse('select 1', 'd') + flush(), 'E'), ('a', bind((), 'd') + execute() + flush() + sync()),
		('a', parse('select 3') + describe('S') + flush(), 'T'), ('a', query('select 4')),
		('a', flush() + flush() + sync()), ('a', one('select 1/0') + flush(), 'E'),
		('a', one('select 5') + flush() + sync())])


def test_several_syncs_in_flight():
	compare([('a', (one('select 1') + sync()) * 5 + query('select 2') + one(INSERT) + sync(), 7),
		('b', one('select 1/0') + sync() + one('select 3') + sync() + sync() + query('select 4'), 4),
		('a', one('begin') + sync() + one(INSERT) + sync() + one('select 1/0') + sync() + one('select 1') +
			sync() + one('rollback') + sync() + query('select count(*) from sink'), 6),
		('a', sync() * 3, 3), ('b', query('select 1') + query('select 2') + one('select 3') + sync(), 3)])


def test_everything_behind_an_error_is_skipped():
	compare([('a', one('select 1/0') + query('select 2') + one('select 3') + one(INSERT) + flush() +
		call_function(INT4_ABS, '-5') + parse('select 1', 'skipped') + close('S', 'skipped') + sync()),
		('b', 'select count(*) from sink'), ('a', bind((), 'skipped') + sync()),
		('a', one(INSERT) + one('select 1/0') + sync()), ('a', 'select count(*) from sink'),
		('a', one(INSERT) + query('select 1/0')), ('a', 'select count(*) from sink'),
		('a', parse('select 1', 'kept') + one('select 1/0') + sync()), ('a', bind((), 'kept') + execute() + sync())])


def test_error_then_a_whole_pipeline_then_its_sync():
	compare([('a', one('select 1/0') + flush(), 'E'), ('a', one('select 2') + flush(), 0),
		('a', query('select 3'), 0), ('a', one('select 4') + sync()), ('a', one('select 5') + sync()),
		('b', one('select 1/0') + flush(), 'E'), ('b', sync()), ('b', 'select 6')])


def test_query_behind_messages():
	compare([('a', one(INSERT) + query('select count(*) from sink')), ('b', 'select count(*) from sink'),
		('a', query("set work_mem = '3MB'") + one('show work_mem') + sync(), 2), ('b', 'show work_mem'),
		('a', one('select 1') + query('select 2; select 3')), ('a', one('select 1') + query('')),
		('a', one('begin') + query(INSERT)), ('a', one('rollback') + query('select count(*) from sink')),
		('a', one('select 1') + query("set work_mem = '5MB'")), ('b', 'show work_mem'), ('a', 'show work_mem'),
		('a', one('select 1') + call_function(INT4_ABS, '-5')), ('a', one('select 1') + query('begin; select 2')),
		('a', 'commit')])


def test_function_calls():
	compare([('a', call_function(INT4_ABS, '-5')), ('a', 'begin'), ('a', call_function(INT4_ABS, '-6')),
		('a', call_function(INT4_ABS, 'x')), ('a', call_function(INT4_ABS, '-7')), ('a', 'rollback'),
		('b', call_function(INT4_ABS, 'x')), ('b', 'select 1'), ('a', call_function(1)),
		('a', call_function(INT4_ABS, '-8') + call_function(INT4_ABS, '-9') + query('select 1'), 3)])


def test_empty_texts():
	compare([('a', one('') + sync()), ('a', one('-- c') + one(';') + sync()), ('a', 'begin'), ('a', one('') + sync()),
		('a', one('select 1/0') + sync()), ('a', one('') + sync()), ('a', query('')), ('a', 'rollback'),
		('a', parse('', 'e') + describe('S', 'e') + sync()), ('b', parse('', 'e') + bind((), 'e') + execute() + sync()),
		('a', bind((), 'e') + describe('P') + execute() + execute() + sync()),
		('a', parse('select 1; select 2') + sync()), ('a', parse('select 1;') + bind() + execute() + sync())])


# ---- transactions ----

def test_transactions_as_messages():
	compare([('a', parse('begin', 'b') + describe('S', 'b') + sync()),
		('a', parse('begin') + bind() + describe('P') + execute() + sync()),
		('a', 'select 1'), ('a', bind((), 'b') + describe('P') + execute() + sync()), ('a', one(INSERT) + sync()),
		('a', one('commit') + sync()), ('a', one('commit') + sync()), ('a', one('rollback') + sync()),
		('a', one('begin isolation level serializable, read only') + one('show transaction_isolation') +
			one('commit') + sync()), ('a', one('begin') + one(INSERT) + sync()),
		('a', one('savepoint s') + one('select 1/0') + sync()), ('a', one('select 1') + sync()),
		('a', one('rollback to s') + one('select count(*) from sink') + sync()), ('a', one('commit') + sync()),
		('b', one('begin') + one(INSERT) + one('commit') + one(INSERT) + one('select 1/0') + sync()),
		('b', 'select count(*) from sink'), ('b', one('call commits()') + sync()),
		('b', one(INSERT) + one('call commits()') + sync()), ('b', one('vacuum five') + sync()),
		('b', one('select 1') + one('vacuum five') + sync()), ('b', one('commit and chain') + sync())])


# ---- COPY ----

def test_copy_as_messages():
	copy = parse('copy sink from stdin') + bind() + execute()
	row = copy_data(b'1\ta\n')
	compare([('a', copy + row + copy_done() + sync()), ('a', copy + sync(), 'G'), ('a', row + copy_done() + sync()),
		('b', 'select count(*) from sink'), ('a', copy + flush(), 'G'),
		('a', flush() + row + sync() + flush() + row + copy_done() + sync()),
		('a', copy + copy_fail('enough') + sync()), ('a', copy + row + copy_fail('enough') + sync()),
		('a', copy + copy_data(b'bad\tx\n') + row + copy_done() + sync()), ('b', 'select count(*) from sink'),
		('a', parse('copy five to stdout') + bind() + execute() + sync()),
		('a', parse('copy (select i from five order by i) to stdout', 'out') + bind((), 'out') + describe('P') +
			execute() + one('select 1') + sync()), ('b', 'select 1'),
		('a', one('select 1') + copy + row + copy_done() + one('select count(*) from sink') + sync())])


def test_copy_by_query_and_its_late_messages():
	row = copy_data(b'2\tb\n')
	compare([('a', query('copy sink from stdin'), 'G'), ('a', copy_data(b'bad\tx\n') + copy_done()),
		('a', row + copy_done() + query('select 1')), ('b', 'select 2'), ('a', row + copy_fail('x') + copy_done() +
			query('select count(*) from sink')), ('a', query('copy sink from stdin'), 'G'),
		('a', sync() + row + flush() + copy_done()), ('a', query('select 1; copy sink from stdin; select 3'), 'G'),
		('a', row + copy_done()), ('a', query('copy sink from stdin; select 7; copy sink from stdin'), 'G'),
		('a', row + copy_done(), 'G'), ('a', row + copy_done()), ('b', 'select count(*) from sink')])


def test_query_during_copy_ends_the_connection():
	for name, cluster, proxy in STACKS:
		told = []
		for connect in (lambda c=cluster: c.primary.session('app', 'app', 'app-secret'), proxy.session):
			session = connect()
			session.send(query('copy sink from stdin'))
			session.read_until('G')
			session.send(query('select 1'))
			told.append(transcript(session.read_all(10)))
			session.close(polite=False)
		same_lines(told[1], told[0], name)


# ---- limits of one session ----

def test_settings_of_the_planner_are_each_clients_own():
	"""A shared statement is planned by each client's plan_cache_mode."""
	compare([('a', "set plan_cache_mode = 'force_custom_plan'"), ('b', "set plan_cache_mode = 'force_generic_plan'"),
		('a', 'prepare pl(int) as select t from five where i = $1'),
		('b', 'prepare pl(int) as select t from five where i = $1')] +
		[(client, 'explain (costs off) execute pl(3)') for client in 'abab'] + [('a', 'show plan_cache_mode'),
		('b', 'show plan_cache_mode'), ('c', 'show plan_cache_mode')])
	_, cluster, proxy = STACKS[0]
	with wire.connect(proxy.address, 'app', 'app-secret', 'app',
			options='-c plan_cache_mode=force_custom_plan') as a:
		equal(a.scalar('show plan_cache_mode'), 'force_custom_plan')


def test_server_that_goes_down_with_statements_open():
	_, cluster, proxy = STACKS[1]
	with proxy.session() as a, proxy.session() as b:
		for session in (a, b):
			session.sql('prepare down as select 1')
			session.send(parse('select 2', 'down2') + sync())
			session.read_ready()
		cluster.primary.restart('fast')
		for session in (a, b):
			equal(session.scalar('execute down'), '1')
			session.send(bind((), 'down2') + execute() + sync())
			equal(''.join(k for k, _ in session.read_ready()), '2DCZ')


if __name__ == '__main__':
	runner.main(globals())
