#!/usr/bin/python3
"""Simple queries: sizes, errors, notices, transactions, and what is left in a session."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error, in_threads  # noqa: E402
from cluster import Cluster, Proxy, eventually, wire  # noqa: E402

CLUSTER = PROXY = None


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 0)
	PROXY = Proxy(CLUSTER, pair=None)


def teardown():
	PROXY.stop()
	CLUSTER.close()


def test_result_sizes_up_to_64_mib():
	with PROXY.session() as session:
		for size in (0, 1, 100, 8191, 8192, 8193, 16383, 16384, 65535, 65536, 1 << 20, 10 << 20):
			value = session.scalar("select repeat('x', %d)" % size)
			equal(len(value), size)
		session.send(
			wire.query("select repeat('0123456789abcdef', 65536) from generate_series(1, 64)"))
		rows = [b for k, b in session.read_ready(60) if k == 'D']
		equal(len(rows), 64)
		assert all(wire.row_values(b)[0] == b'0123456789abcdef' * 65536 for b in rows)


def test_many_rows_in_order():
	with PROXY.session() as session:
		result = session.sql('select i from generate_series(1, 200000) i', timeout=60)
		equal([int(r[0]) for r in result.rows], list(range(1, 200001)))


def test_large_queries():
	with PROXY.session() as session:
		for size in (8000, 8192, 70000, 1 << 20, 8 << 20):
			text = 'y' * size
			equal(session.scalar("select length('%s')" % text), str(size))


def test_slow_reader_gets_everything_and_the_proxy_stays_small():
	before = PROXY.rss_kb()
	session = PROXY.session()
	session.send(wire.query("select repeat('z', 100000) from generate_series(1, 3000)"))  # 300 MB
	# Nothing is read for a while: the proxy must stop reading from the server instead of hoarding.
	time.sleep(1.5)
	grown = PROXY.rss_kb() - before
	assert grown < PROXY.may_grow_kb(64), 'the proxy grew by %d kB for a client that does not read' % grown
	rows = sum(1 for k, _ in session.read_ready(60) if k == 'D')
	equal(rows, 3000)
	session.close()


def _pipeline(session, messages, count):
	"""Sends count messages without a Sync while the answers are read; the values of the rows."""
	sender = threading.Thread(target=lambda: session.send(
		b''.join(messages(i) for i in range(count)) + wire.sync()), daemon=True)
	began = time.monotonic()
	sender.start()
	kinds, values = {}, []
	for kind, body in session.read_ready(90):
		kinds[kind] = kinds.get(kind, 0) + 1
		if kind == 'D':
			values.append(wire.row_values(body)[0])
	sender.join(10)
	return kinds, values, time.monotonic() - began


def test_long_pipelines_take_linear_time_and_little_memory():
	count = 40000
	with PROXY.session() as session:
		_pipeline(session, lambda i: wire.parse('select 1') + wire.bind() + wire.execute(), 200)
		before = PROXY.rss_kb()
		kinds, values, seconds = _pipeline(session, lambda i: wire.parse("select '%d'" % i) +
			wire.bind() + wire.execute(), count)
		equal((kinds['C'], kinds['1'], kinds['2']), (count, count, count))
		equal(values, [b'%d' % i for i in range(count)])
		grown = PROXY.rss_kb() - before
		assert grown < PROXY.may_grow_kb(80), 'the proxy grew by %d kB for a pipeline' % grown
		# The same straight to the server, to know what this machine can do.
		with CLUSTER.primary.session('app', 'app', 'app-secret') as direct:
			floor = _pipeline(direct, lambda i: wire.parse("select '%d'" % i) + wire.bind() +
				wire.execute(), count)[2]
		assert seconds < 5 + 5 * floor, (seconds, floor)
		print('%d statements in one pipeline: %.1f s, straight %.1f s, %d kB' % (
			count, seconds, floor, grown))


def test_many_names_in_one_pipeline():
	with PROXY.session() as session:
		count = 10000
		kinds, _, seconds = _pipeline(session, lambda i: wire.parse('select %d' % i, 'n%d' % i), count)
		equal(kinds['1'], count)
		assert seconds < 30, seconds
		session.send(b''.join(wire.bind((), 'n%d' % i) + wire.execute() for i in range(0, count, 7)) +
			wire.sync())
		rows = [int(wire.row_values(b)[0]) for k, b in session.read_ready(60) if k == 'D']
		equal(rows, list(range(0, count, 7)))


def test_client_that_never_reads_does_not_hold_others_up():
	slow = PROXY.session()
	slow.send(wire.query("select repeat('z', 100000) from generate_series(1, 3000)"))
	with PROXY.session() as other:
		for i in range(200):
			equal(other.scalar('select %d' % i, timeout=5), str(i))
	slow.abort()


def test_empty_queries():
	with PROXY.session() as session:
		for text in ('', ';', ' ', '-- ping', '/* c */', ';;'):
			session.send(wire.query(text))
			equal([k for k, _ in session.read_ready()], ['I', 'Z'], repr(text))


def test_several_statements_in_one_message():
	with PROXY.session() as session:
		results = session.execute("select 1; select 'two'; create temp table x (i int); select 3")
		equal([r.tag for r in results], ['SELECT 1', 'SELECT 1', 'CREATE TABLE', 'SELECT 1'])


def test_error_in_the_middle_stops_the_rest():
	with PROXY.session() as session:
		results = session.execute('select 1; select 1/0; select 3')
		equal(len(results), 2)
		equal(results[1].error.sqlstate, '22012')
		equal(session.scalar('select 4'), '4')


def test_error_fields_are_the_servers():
	with PROXY.session() as session:
		error = expect_error('42703', session.sql, 'select nope from pg_class')
		equal(error.fields['P'], '8')
		assert error.fields['M'] == 'column "nope" does not exist'
		session.sql('create temp table u (i int primary key)')
		session.sql('insert into u values (1)')
		error = expect_error('23505', session.sql, 'insert into u values (1)')
		equal((error.fields['n'], error.fields['D']), ('u_pkey', 'Key (i)=(1) already exists.'))


def test_notices_arrive_in_place_and_once():
	with PROXY.session() as session:
		session.send(
			wire.query("do $$ begin raise notice 'a'; raise warning 'b'; end $$; select 1"))
		kinds = [k for k, _ in session.read_ready()]
		equal(kinds, ['N', 'N', 'C', 'T', 'D', 'C', 'Z'])
		equal([n['M'] for n in session.notices], ['a', 'b'])


def test_transaction_is_one_backend_and_atomic():
	with PROXY.session() as session:
		session.sql('create table tx (i int)')
		session.sql('begin')
		equal(session.status, 'T')
		pids = {session.scalar('select pg_backend_pid()') for _ in range(5)}
		equal(len(pids), 1)
		session.sql('insert into tx values (1)')
		with PROXY.session() as other:
			equal(other.scalar('select count(*) from tx'), '0')
		session.sql('rollback')
		equal(session.status, 'I')
		equal(session.scalar('select count(*) from tx'), '0')
		session.sql('begin; insert into tx values (2); commit')
		equal(session.scalar('select count(*) from tx'), '1')


def test_failed_transaction_stays_failed_until_rollback():
	with PROXY.session() as session:
		session.sql('begin')
		expect_error('22012', session.sql, 'select 1/0')
		equal(session.status, 'E')
		expect_error('25P02', session.sql, 'select 1')
		equal(session.sql('commit').tag, 'ROLLBACK')
		equal(session.status, 'I')


def test_savepoints():
	with PROXY.session() as session:
		session.sql('create table sp (i int)')
		session.sql('begin; insert into sp values (1); savepoint a; insert into sp values (2)')
		expect_error('22012', session.sql, 'select 1/0')
		session.sql('rollback to a')
		equal(session.scalar('select count(*) from sp'), '1')
		session.sql('commit')
		equal(session.scalar('select count(*) from sp'), '1')


def test_client_that_leaves_in_a_transaction_rolls_it_back():
	with PROXY.session() as session:
		session.sql('create table leaver (i int)')
	for polite in (True, False):
		session = PROXY.session()
		session.sql('begin; insert into leaver values (1); lock table leaver')
		if polite:
			session.close()
		else:
			session.abort()
		with PROXY.session() as other:
			eventually(lambda o=other: o.scalar('select count(*) from leaver') == '0',
				what='rolled back')
			other.sql('insert into leaver values (0); delete from leaver', timeout=5)


def test_client_that_leaves_during_a_query_stops_it_on_the_server():
	session = PROXY.session()
	session.send(wire.query("select 'left-behind', pg_sleep(60)"))
	running = ("select count(*) from pg_stat_activity where query like '%left-behind%'"
		" and state = 'active' and pid <> pg_backend_pid()")
	eventually(lambda: CLUSTER.primary.scalar(running) == '1', what='query running')
	session.abort()
	eventually(lambda: CLUSTER.primary.scalar(running) == '0', 10, what='query ended on the server')


def test_settings_of_one_session_are_not_seen_by_another():
	# A small pool makes every leak show: all sessions share few backends.
	def one(number):
		with PROXY.session() as session:
			session.sql("set application_name = 'n%d'" % number)
			session.sql("set work_mem = '%dkB'" % (1000 + number))
			for _ in range(30):
				equal(session.scalar('show application_name'), 'n%d' % number)
				equal(session.scalar('show work_mem'), '%dkB' % (1000 + number))
	in_threads([lambda n=n: one(n) for n in range(8)], 60)
	with PROXY.session() as fresh:
		equal(fresh.scalar('show work_mem'), '4MB')
		equal(fresh.scalar('show application_name'), '')


def test_temp_tables_stay_with_their_session():
	first, second = PROXY.session(), PROXY.session()
	first.sql('create temp table mine (i int); insert into mine values (1)')
	expect_error('42P01', second.sql, 'select * from mine')
	equal(first.scalar('select i from mine'), '1')
	first.close()
	for _ in range(5):
		expect_error('42P01', second.sql, 'select * from mine')
	second.close()


def test_advisory_lock_stays_and_ends_with_its_session():
	first, second = PROXY.session(), PROXY.session()
	equal(first.scalar('select pg_try_advisory_lock(77)'), 't')
	equal(second.scalar('select pg_try_advisory_lock(77)'), 'f')
	first.close()
	eventually(lambda: second.scalar('select pg_try_advisory_lock(77)') == 't',
		what='lock given back')
	second.close()


def test_few_backends_serve_many_idle_sessions():
	# Backends are shared, not one a client.
	sessions = [PROXY.session() for _ in range(60)]
	for session in sessions:
		equal(session.scalar('select 1'), '1')
	backends = CLUSTER.primary.backends(user='app')
	assert backends <= 30, '%d backends for 60 idle sessions' % backends
	for session in sessions:
		session.close()


def test_backend_that_died_while_idle_is_replaced_silently():
	with PROXY.session() as session:
		equal(session.scalar('select 1'), '1')
		assert CLUSTER.primary.terminate_backends(user='app') >= 1
		for i in range(20):
			equal(session.scalar('select %d' % i), str(i))


def test_backend_that_dies_in_a_transaction_is_a_clear_error():
	with PROXY.session() as session:
		session.sql('begin; select 1')
		pid = session.scalar('select pg_backend_pid()')
		CLUSTER.primary.sql(
			"select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app' and"
			" state like 'idle in transaction%'")
		try:
			session.sql('select 1')
			raise AssertionError('a statement of a lost transaction succeeded')
		except wire.WireError as e:
			assert e.sqlstate[:2] in ('08', '57') or e.sqlstate == '25P02', (pid, e)
		except wire.Closed:
			pass
	with PROXY.session() as session:
		equal(session.scalar('select 1'), '1')


def _lose_the_server_in_a_transaction(session):
	session.sql('begin; create temp table lost_work (i int)')
	CLUSTER.primary.sql("select pg_terminate_backend(pid) from pg_stat_activity where"
		" usename = 'app' and state like 'idle in transaction%'")
	eventually(lambda: CLUSTER.primary.scalar("select count(*) from pg_stat_activity where"
		" usename = 'app' and state like 'idle in transaction%'") == '0', what='the session lost')


def test_commit_of_lost_work_never_looks_like_one():
	with PROXY.session() as session:
		# Nobody has told the client: COMMIT does, in both protocols.
		for commit in (session.sql, session.extended):
			_lose_the_server_in_a_transaction(session)
			expect_error('08006', commit, 'commit')
			equal(session.scalar('select 1'), '1')
		# The client knows: COMMIT ends the block as it ends a failed transaction.
		_lose_the_server_in_a_transaction(session)
		expect_error('08006', session.extended, 'select 1')
		expect_error('25P02', session.extended, 'select 1')
		expect_error('25P02', session.sql, 'select 1')
		session.send(wire.parse('commit', 'c') + wire.describe('S', 'c') + wire.sync())
		messages = session.read_ready()
		equal([k for k, _ in messages], ['1', 't', 'n', 'Z'])
		equal(messages[-1][1], b'E')
		session.send(wire.bind((), 'c') + wire.describe('P') + wire.execute() + wire.sync())
		messages = session.read_ready()
		equal([k for k, _ in messages], ['2', 'n', 'C', 'Z'])
		equal((messages[2][1], messages[-1][1]), (b'ROLLBACK\0', b'I'))
		# The statement got its name while no server was there; it works with one.
		session.sql('begin')
		session.send(wire.bind((), 'c') + wire.execute() + wire.sync())
		equal([b for k, b in session.read_ready() if k == 'C'], [b'COMMIT\0'])
		# A batch that goes on behind the end of the block is refused as a whole.
		_lose_the_server_in_a_transaction(session)
		expect_error('08006', session.sql, 'select 1')
		session.send(wire.parse('rollback') + wire.bind() + wire.execute() + wire.parse('select 1') +
			wire.bind() + wire.execute() + wire.sync())
		equal([k for k, _ in session.read_ready()], ['E', 'Z'])
		equal(session.sql('rollback').tag, 'ROLLBACK')
		equal(session.scalar('select 1'), '1')


def test_extended_protocol_passes_through():
	with PROXY.session() as session:
		result = session.extended('select $1::int + $2::int', (40, 2))
		equal(result.rows, [('42',)])
		session.sql('begin')
		session.send(wire.parse('select $1::text', 's1') + wire.sync())
		equal([k for k, _ in session.read_ready()], ['1', 'Z'])
		for value in ('a', None, 'x' * 100000):
			session.send(wire.bind([value], 's1') + wire.execute() + wire.sync())
			messages = session.read_ready()
			equal([k for k, _ in messages], ['2', 'D', 'C', 'Z'])
			got = wire.row_values(messages[1][1])[0]
			equal(got, value.encode() if value is not None else None)
		session.sql('commit')


def test_copy_in_and_out():
	with PROXY.session() as session:
		session.sql('create table cp (i int, t text)')
		session.send(wire.query('copy cp from stdin'))
		session.read_until('G')
		for i in range(1000):
			session.send(wire.copy_data(b'%d\t%s\n' % (i, b'x' * (i % 300))))
		session.send(wire.copy_done())
		messages = session.read_ready()
		equal(messages[0], ('C', b'COPY 1000\0'))
		session.send(wire.query('copy cp to stdout'))
		lines = [b for k, b in session.read_ready() if k == 'd']
		equal(len(lines), 1000)
		session.send(wire.query('copy cp from stdin'))
		session.read_until('G')
		session.send(wire.copy_data(b'5\tbroken\n') + wire.copy_fail('changed my mind'))
		messages = session.read_ready()
		equal((messages[0][0], wire.error_fields(messages[0][1])['C']), ('E', '57014'))
		equal(session.scalar('select count(*) from cp'), '1000')


if __name__ == '__main__':
	runner.main(globals())
