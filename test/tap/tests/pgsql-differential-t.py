#!/usr/bin/python3
"""The same client bytes straight at the primary and through the proxy: the answers must be equal,
message for message. Scripts are lists of steps: bytes are sent, an integer n reads n ReadyForQuery.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import same_lines  # noqa: E402
from cluster import Cluster, Proxy, wire  # noqa: E402
from cluster.wire import (bind, close, copy_data, copy_done, copy_fail, describe, execute,
	# noqa: E402
	flush, frame, parse, query, sync, transcript)

STACKS = []


def setup():
	"""Two stacks: one server, and a pair with read/write split and session consistency."""
	plain = Cluster('stock', 0)
	STACKS.append(('one server', plain, Proxy(plain, pair=None)))
	split = Cluster('kernel', 2)
	STACKS.append(('split', split, Proxy(split)))
	for _, cluster, _ in STACKS:
		cluster.primary.sql('create table base (id int primary key, v text); '
			"insert into base select i, 'v' || i from generate_series(1, 1000) i", 'app')
		cluster.primary.sql('grant all on base to app', 'app')
		cluster.wait_caught_up()


def teardown():
	for _, cluster, proxy in STACKS:
		proxy.stop()
		cluster.close()


def _play(connect, script):
	session = connect()
	try:
		return transcript(wire.run_script(session, script, 20.0))
	finally:
		session.close()


def _compare(script, cleanup=None, repeat=2):
	"""Each script twice through the proxy: the second time pools and caches are warm."""
	for name, cluster, proxy in STACKS:
		wanted = _play(lambda c=cluster: c.primary.session('app', 'app', 'app-secret',
			application_name=''), script)
		for i in range(repeat):
			if cleanup:
				cluster.primary.sql(cleanup, 'app')
			got = _play(proxy.session, script)
			same_lines(got, wanted, '%s, round %d' % (name, i + 1))
		if cleanup:
			cluster.primary.sql(cleanup, 'app')


def _queries(*texts):
	script = []
	for text in texts:
		script += [query(text), 1]
	return script


def test_login_reports_the_same_parameters():
	for name, cluster, proxy in STACKS:
		direct = cluster.primary.session('app', 'app', 'app-secret', application_name='x')
		through = proxy.session(application_name='x')
		for key in ('server_version', 'server_encoding', 'client_encoding', 'DateStyle', 'TimeZone',
				'IntervalStyle', 'integer_datetimes', 'standard_conforming_strings',
				'application_name', 'is_superuser', 'session_authorization',
				'default_transaction_read_only', 'in_hot_standby'):
			assert through.parameters.get(key) == direct.parameters.get(
				key), '%s: %s is %r, server %r' % (
				name, key, through.parameters.get(key), direct.parameters.get(key))
		direct.close()
		through.close()


def test_values_of_many_types():
	_compare(_queries(
		"select 1, 'a', null, true, 1.50, now() is null, array[1,2], '{\"a\":1}'::jsonb,"
		" '1 day'::interval",
		"select E'\\\\x00ff'::bytea, '', repeat('x', 300), 'üñ€'::text, point(1,2), row(1,'a')",
		'select', 'select * from base where id < 0', 'table base', 'values (1,2),(3,4)'))


def test_empty_and_comment_queries():
	_compare(_queries('', ';', '-- c', '/* a /* b */ c */', ' ; ; ', 'select 1;;select 2'))


def test_errors_of_every_kind():
	_compare(_queries('selec 1', 'select 1/0', 'select * from nope', "select 'a'::int",
		'insert into base values (1, null)', 'select nofunc()', 'select $1', "select '\\",
		'select 1; selec 2',
		'select 1; select 1/0; select 3', 'rollback to nowhere', 'execute nothing', 'fetch c',
		"select 'unterminated", 'drop table nope', 'set nope.nope to', "set datestyle to 'nope'"))


def test_warnings_and_notices():
	_compare(_queries('commit', 'rollback', 'begin', 'begin', 'commit', 'drop table if exists nope',
		"do $$ begin raise notice 'n %', 1; raise warning using message = 'w', hint = 'h'; end $$",
		"do $$ begin raise exception using errcode = 'P0042', message = 'm', detail = 'd'; end $$",
		'set local work_mem = 1000'))


def test_transactions():
	_compare(_queries('create table d1 (i int)', 'begin', 'insert into d1 values (1)',
		'select * from d1', 'savepoint a', 'insert into d1 values (2)', 'rollback to a',
		'release a',
		'select * from d1', 'select 1/0', 'select 1', 'rollback', 'select * from d1',
		'start transaction isolation level repeatable read, read only', 'select * from d1',
		'insert into d1 values (3)', 'end',
		'begin; insert into d1 values (4); commit; select * from d1',
		'begin', 'commit and chain', 'select 1', 'rollback and chain', 'rollback', 'abort',
		'insert into d1 values (5); select 1/0', 'select * from d1', 'drop table d1'),
		'drop table if exists d1')


def test_transactions_of_every_spelling():
	_compare(_queries('begin transaction', 'commit work', 'BEGIN WORK READ ONLY, ISOLATION LEVEL REPEATABLE READ',
		'show transaction_isolation', 'show transaction_read_only', 'insert into base values (900, null)', 'end',
		'begin not deferrable', 'abort', '/*c*/begin;', 'select 1', 'rollback work', 'begin;;', 'end transaction',
		'begin', 'savepoint a', 'select 1/0', 'select 1', 'rollback work to savepoint a', 'select 1',
		'release savepoint a', 'commit', 'begin', 'select 1/0', 'commit', 'begin', 'select 1/0', '', ';', 'end',
		'select 1; begin; select 2', 'rollback', 'begin; select 1; commit; select 1/0', 'select 1',
		'begin', 'set transaction isolation level serializable', 'show transaction_isolation', 'commit',
		'show transaction_isolation', 'set transaction read only', 'show transaction_read_only',
		'set session characteristics as transaction read only', 'show transaction_read_only',
		'set session characteristics as transaction read write', 'savepoint b', 'release b', 'rollback to b',
		"begin; set local work_mem = '5MB'; show work_mem; commit; show work_mem",
		'begin', 'discard all', 'rollback', 'begin', 'discard plans', 'discard sequences', 'discard temp', 'commit',
		'create table bt (i int)', 'insert into bt values (1); select 1/0; insert into bt values (2)',
		'select * from bt', 'insert into bt values (3); commit; insert into bt values (4); select 1/0',
		'select * from bt', 'drop table bt'), 'drop table if exists bt')
	_compare([parse('begin') + describe() + sync(), 1, parse('begin') + bind() + describe('P') + execute() + sync(),
		1, query('select 1'), 1, parse('commit') + bind() + describe('P') + execute() + sync(), 1,
		parse('begin isolation level serializable') + bind() + execute() + parse('select 1') + bind() + execute() +
		parse('end') + bind() + execute() + sync(), 1])


def test_notifications_of_one_client():
	_compare(_queries('listen n1', 'unlisten n1', 'listen n1; listen n2; unlisten n1', 'begin', 'listen n3',
		'rollback', 'begin', 'listen n3', 'commit', 'select pg_listening_channels()', 'unlisten *',
		'select pg_listening_channels()', 'unlisten nothing', 'begin', 'select 1/0', 'listen n4', 'rollback',
		'listen "Mixed"; select pg_listening_channels()', 'unlisten "Mixed"', 'notify n1', "notify n1, ''",
		"select pg_notify('', 'x')", "select pg_notify(repeat('x', 64), 'x')", "notify n1, 'p'", 'discard all',
		'select pg_listening_channels()', 'listen'))
	_compare([parse('listen e1') + describe() + sync(), 1,
		parse('listen e1') + bind() + describe('P') + execute() + sync(), 1,
		parse('unlisten e1') + bind() + execute() + parse('select 1') + bind() + execute() + sync(), 1])


def test_write_then_read_everywhere():
	_compare(_queries('create table d2 (i int primary key, t text)',
		"insert into d2 values (1,'a'),(2,'b')", 'select * from d2 order by i',
		"update d2 set t = 'c' where i = 1 returning *", 'select * from d2 order by i',
		'with x as (delete from d2 where i = 2 returning i) select * from x',
		'select count(*) from d2',
		"insert into d2 values (1,'x') on conflict (i) do update set t = excluded.t",
		'select * from d2',
		'truncate d2', 'select count(*) from d2', 'drop table d2'),
		'drop table if exists d2')


def test_settings():
	_compare(_queries("set work_mem = '5MB'", 'show work_mem', 'begin',
		"set local work_mem = '6MB'",
		'show work_mem', 'commit', 'show work_mem', "set timezone = 'Asia/Tokyo'", 'show timezone',
		"select set_config('work_mem', '7MB', false)", 'show work_mem', 'reset work_mem',
		'show work_mem', "set datestyle to 'SQL, DMY'", "select '2020-01-02'::date", 'reset all',
		'show datestyle', "set search_path to pg_catalog", 'select count(*) > 0 from pg_class',
		'discard all', 'show search_path', "set application_name = 'd'", 'show application_name',
		'begin', "set work_mem = '9MB'", 'rollback', 'show work_mem'))


def test_session_objects():
	_compare(_queries('create temp table tt (i int)', 'insert into tt values (1)',
		'select * from tt',
		'drop table tt', 'prepare p as select 1', 'execute p', 'deallocate p', 'execute p',
		'begin', 'declare c cursor for select id from base order by id', 'fetch 2 from c',
		'move 3 from c',
		'fetch from c', 'close c', 'commit',
		'declare h cursor with hold for select id from base order by id', 'fetch 1 from h',
		'close h',
		'select pg_advisory_lock(5)', 'select pg_advisory_unlock(5)', 'listen ch', 'unlisten *'))


def test_sequences_and_volatile_functions():
	_compare(_queries('create sequence ds', "select nextval('ds')", "select nextval('ds')",
		"select currval('ds')", "select setval('ds', 10)", 'select lastval()', 'drop sequence ds'),
		'drop sequence if exists ds')


def test_locking_reads():
	_compare(_queries('select id from base where id = 1 for update',
		'select id from base where id = 1 for share',
		'select * from (select id from base where id = 1 for no key update) s',
		'with x as (select id from base where id = 2 for key share) select * from x'))


def test_explain():
	_compare(_queries('explain (costs off) select * from base where id = 1',
		'explain (costs off) update base set v = v where id = 1',
		'explain (analyze, costs off, timing off, summary off) select id from base where id = 1'))


def test_tables_without_columns():
	_compare(_queries('create table d3()', 'select * from d3', 'insert into d3 default values',
		'select from d3', 'table d3', 'drop table d3'),
		'drop table if exists d3')


def test_extended_one_statement():
	_compare([
		parse('select $1::int + 1, $2::text') + bind(['4', 'x']) + describe('P') + execute() +
		sync(), 1,
		parse('select $1::int', 's') + describe('S', 's') + sync(), 1,
		bind(['7'], 's') + execute() + sync(), 1,
		bind([b'\0\0\0\x08'], 's', formats=[1], result_formats=[1]) + describe('P') + execute() +
		sync(), 1,
		close('S', 's') + sync(), 1,
		bind(['7'], 's') + execute() + sync(), 1,
		parse('') + bind() + describe('P') + execute() + sync(), 1,
		parse('insert into base values (5000, $1) returning *') + bind(['n']) + describe('P') +
		execute() + sync(), 1,
		parse('delete from base where id = 5000') + bind() + describe('P') + execute() + sync(), 1,
	], 'delete from base where id = 5000')


def test_extended_errors_skip_to_sync():
	_compare([
		parse('selec') + bind() + execute() + parse('select 1') + sync(), 1,
		parse('select 1/$1::int') + bind(['0']) + execute() + query('select 5') + sync(), 1,
		query('select 6'), 1,
		bind([], 'missing') + sync(), 1,
		execute('missing') + sync(), 1,
		describe('S', 'missing') + sync(), 1,
		parse('select $1::int') + bind(['a']) + sync(), 1,
		parse('select $1::int') + bind([]) + sync(), 1,
		parse('select 1; select 2') + sync(), 1,
		sync(), 1, sync() + sync(), 2,
	])


def test_extended_portals_with_row_limits():
	_compare([
		query('begin'), 1,
		parse('select id from base order by id', 'r') + bind([], 'r', 'pt') + execute('pt', 3) +
		flush(), 's',
		execute('pt', 2) + sync(), 1,
		execute('pt', 0) + sync(), 1,
		execute('pt', 0) + sync(), 1,
		close('P', 'pt') + close('P', 'never') + sync(), 1,
		query('commit'), 1,
		close('S', 'r') + sync(), 1,
	])


def test_extended_pipelines():
	batch = b''
	for i in range(50):
		batch += parse('select $1::int * 2') + bind([str(i)]) + execute() + sync()
	_compare([batch, 50])
	batch = parse('select $1::int', 'pp')
	for i in range(50):
		batch += bind([str(i)], 'pp') + execute()
	_compare([batch + sync(), 1])
	_compare([query('select 1') + query('select 2; select 3') + query('select 1/0') +
		query('select 4'), 4])


def test_extended_transaction_in_one_pipeline():
	_compare([
		parse('begin') + bind() + execute() + parse('create table d4 (i int)') + bind() +
		execute() +
		parse('insert into d4 values ($1)') + bind(['1']) + execute() + parse('commit') + bind() +
		execute() + sync(), 1,
		parse('select * from d4') + bind() + execute() + sync(), 1,
		parse('begin') + bind() + execute() + sync() + parse('select 1/0') + bind() + execute() +
		sync() +
		parse('select 1') + bind() + execute() + sync() + parse('rollback') + bind() + execute() +
		sync(), 4,
		query('drop table d4'), 1,
	], 'drop table if exists d4')


def test_extended_implicit_transaction_rolls_back_to_sync():
	_compare([
		query('create table d5 (i int)'), 1,
		parse('insert into d5 values (1)') + bind() + execute() + parse('select 1/0') + bind() +
		execute() + sync(), 1,
		query('select count(*) from d5'), 1,
		query('drop table d5'), 1,
	], 'drop table if exists d5')


def test_copy():
	lines = b''.join(copy_data(b'%d\trow %d\n' % (i, i)) for i in range(500))
	_compare([
		query('create table d6 (i int, t text)'), 1,
		query('copy d6 from stdin'), 'G', lines + copy_done(), 1,
		query('copy d6 to stdout'), 1,
		query("copy (select i from d6 where i < 5) to stdout (format csv, header)"), 1,
		query('copy d6 from stdin'), 'G', copy_data(b'x\ty\n') + copy_done(), 1,
		query('copy d6 from stdin'), 'G', copy_data(b'1\tz\n') + copy_fail('no'), 1,
		query('select 1; copy (select 2) to stdout; select 3'), 1,
		query('copy d6 from stdin; select 9'), 'G', copy_data(b'7\ta\n') + copy_done(), 1,
		query('select count(*) from d6'), 1,
		query('copy nope from stdin'), 1,
		query('copy (select * from base) to stdout (format binary)'), 1,
		query('drop table d6'), 1,
	], 'drop table if exists d6')


def test_copy_error_while_data_still_comes():
	"""The server ends the COPY at a bad line; what the client had already sent must be dropped."""
	bad = copy_data(b'bad\n') + b''.join(copy_data(b'%d\n' % i) for i in range(20000)) + copy_done()
	_compare([
		query('create table d7 (i int)'), 1,
		query('copy d7 from stdin'), 'G', bad, 1,
		query('select count(*) from d7'), 1,
		query('drop table d7'), 1,
	], 'drop table if exists d7')


def test_function_call_message():
	# 1397 is int4abs(int): the old fast path, still spoken by some drivers for large objects.
	body = b'\0\0\x05\x75' + b'\0\0' + b'\0\1' + b'\0\0\0\2-5' + b'\0\0'
	_compare([frame('F', body), 1, query('select 1'), 1])


def test_protocol_mistakes_between_messages():
	_compare([flush() + query('select 1'), 1, sync(), 1, copy_done() + query('select 2'), 1,
		copy_fail('x') + query('select 3'), 1, copy_data(b'y') + query('select 4'), 1])


def test_large_rows():
	_compare(_queries("select repeat('a', 1000000), repeat('b', 1000000)",
		"select i, repeat('c', i * 100) from generate_series(1, 300) i",
		"select string_agg(v, ',' order by id) from base"))


def test_deep_and_long_statements():
	_compare(_queries('select ' + '(' * 500 + '1' + ')' * 500,
		'select 1 where 1 in (' + ','.join(str(i) for i in range(5000)) + ')',
		'select ' + '+'.join(['1'] * 1500), 'select $q$' + '$' * 100000 + 'q$q$' + '$'))


def test_quoting_and_strange_syntax():
	_compare(_queries('select U&"d\\0061t" from (select 1 as dat) s', "select E'\\'' || 'a'\n'b'",
		"select 'a' 'b'", "select b'101', x'1F', n'x'", 'select 1 as "select", 2 as "a""b"',
		"select $a$ $$ ; select 2 $a$", 'select 5*--c\n2', "select '1'::numeric(10,2)::int[]",
		'set standard_conforming_strings = off', "select 'it\\'s'",
		'set standard_conforming_strings = on',
		"select count(*)::int from base b where b.v = 'v1'"))


if __name__ == '__main__':
	runner.main(globals())
