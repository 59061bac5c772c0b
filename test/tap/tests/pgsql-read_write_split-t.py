#!/usr/bin/python3
"""Which server a statement runs on: reads that are safe go to replicas, all else to the primary."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error  # noqa: E402
from cluster import READER, WRITER, Cluster, Proxy, eventually  # noqa: E402

CLUSTER = PROXY = None
WHERE = 'select inet_server_port()'


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('kernel', 2)
	CLUSTER.primary.sql('create table kv (k int primary key, v int); '
		'insert into kv select i, 0 from generate_series(1, 100) i; create sequence s; '
		"create function writes() returns int language sql volatile as 'update kv set"
		" v = v + 1 where"
		" k = 1 returning v'; create view plain as select * from kv; "
		"create view hidden as select writes() as w; "
		'grant all on all tables in schema public to app; grant all on sequence s to app', 'app')
	CLUSTER.wait_caught_up()
	PROXY = Proxy(CLUSTER)


def teardown():
	PROXY.stop()
	CLUSTER.close()


def _ports(session, text, times=20):
	return {int(session.scalar(text)) for _ in range(times)}


def _runs_on_primary(session, text):
	"""Runs text and says whether the writer hostgroup's count of queries moved, and no other."""
	before = _executed()
	session.execute(text)
	eventually(lambda: _executed() != before, what='a count that moves')
	after = _executed()
	moved = [hg for hg in after if after[hg] != before.get(hg, 0)]
	assert len(moved) == 1, (text, before, after)
	return moved[0] == WRITER


def _executed():
	rows = PROXY.admin('select hostgroup, sum(Queries) from stats_pgsql_connection_pool'
		' group by hostgroup').rows
	return {int(h): int(q) for h, q in rows}


def test_plain_reads_use_all_replicas_and_not_the_primary():
	# A replica may still be on its way into the pool when the first reads come; the primary is never
	# a place for them.
	seen = set()

	def both():
		with PROXY.session() as session:
			seen.update(_ports(session, 'select inet_server_port() from kv where k = 1', 60))
		return len(seen) >= 2
	eventually(both, 10, 'reads on both replicas')
	equal(seen, {r.port for r in CLUSTER.replicas})


def test_writes_run_on_the_primary_and_reads_after_them_are_right():
	with PROXY.session() as session:
		for i in range(1, 50):
			session.sql('update kv set v = %d where k = 2' % i)
			row = session.sql('select v, inet_server_port() from kv where k = 2').rows[0]
			equal(int(row[0]), i)


def test_statements_that_only_look_like_reads_go_to_the_primary():
	texts = [
		'select v from kv where k = 1 for update',
		'select v from kv where k = 1 for share',
		'select * from (select v from kv where k = 1 for no key update) s',
		'with x as (select k from kv where k = 1 for key share) select * from x',
		'with x as (update kv set v = v where k = 3 returning k) select * from x',
		"select nextval('s')", 'select k from kv where k = nextval(\'s\')', "select setval('s', 5)",
		'select writes()', 'select txid_current()', 'select pg_current_wal_lsn()',
		'explain analyze update kv set v = v where k = 4',
		'select unknown_function()', 'selec syntax error', 'select v into temp tmp_a from kv',
		"select pg_notify('c', 'p')", 'select 1; select 2', 'lock table kv', 'vacuum kv',
		'analyze kv',
		'create table w1 (i int)', 'drop table w1', "do $$ begin perform 1; end $$",
		'select lo_create(0)', 'select pg_advisory_lock(3)', 'select pg_advisory_unlock(3)',
		"select set_config('work_mem', '4MB', false)",
	]
	for text in texts:
		with PROXY.session() as session:
			assert _runs_on_primary(session, text), 'ran on a replica: ' + text


def test_view_that_hides_a_volatile_function_goes_to_the_primary():
	with PROXY.session() as session:
		before = CLUSTER.primary.scalar('select v from kv where k = 1', 'app')
		session.sql('select * from hidden')
		equal(int(CLUSTER.primary.scalar('select v from kv where k = 1', 'app')), int(before) + 1)


def test_reads_of_every_form_go_to_replicas():
	texts = ['select 1', 'table kv', 'values (1)', 'select count(*) from kv', 'select * from plain',
		'(select 1) union all (select 2)', 'with x as (select 1) select * from x',
		'select k, (select max(v) from kv) from kv where k in (select 1)',
		'explain select * from kv',
		'-- comment\nselect 1', '/* c */ select 1;', 'SELECT upper(\'a\')',
		"select 'for update'", 'select 1 as "update"']
	for text in texts:
		with PROXY.session() as session:
			assert not _runs_on_primary(session, text), 'ran on the primary: ' + text


def test_transactions_with_writes_stay_on_one_backend():
	with PROXY.session() as session:
		session.sql('begin')
		session.sql('update kv set v = 77 where k = 5')
		equal(session.sql('select v, inet_server_port() from kv where k = 5').rows,
			[('77', str(CLUSTER.primary.port))])
		session.sql('commit')


def test_serializable_transaction_runs_on_the_primary():
	with PROXY.session() as session:
		session.sql('begin isolation level serializable')
		equal(_ports(session, WHERE, 3), {CLUSTER.primary.port})
		session.sql('commit')


def test_session_with_a_temp_table_reads_it():
	with PROXY.session() as session:
		session.sql('create temp table tt (i int); insert into tt values (9)')
		for _ in range(10):
			equal(session.scalar('select i from tt'), '9')


def test_cursor_and_sequence_values_stay_with_their_session():
	with PROXY.session() as session:
		session.sql("select nextval('s')")
		value = session.scalar("select currval('s')")
		for _ in range(5):
			equal(session.scalar("select currval('s')"), value)


def test_hints():
	with PROXY.session() as session:
		for hint in ('/*FORCE_MASTER*/', '/* master */', '/* route=primary */',
				'/* hostgroup=%d */' % WRITER):
			equal(_ports(session, hint + ' ' + WHERE, 5), {CLUSTER.primary.port}, hint)
		equal(_ports(session, '/* unknown=1 */ ' + WHERE, 5) & {CLUSTER.primary.port}, set())
		for hint in ('/*FORCE_SLAVE*/', '/* route=replica */', '/* hostgroup=%d */' % READER):
			session.sql(hint + ' update kv set v = v where k = 6')
			port = int(session.scalar(hint + ' ' + WHERE))
			assert port != CLUSTER.primary.port, hint


def test_read_right_after_write_is_right_although_both_replicas_lag():
	for replica in CLUSTER.replicas:
		replica.set_apply_delay(300)
	try:
		with PROXY.session() as session:
			for i in range(1, 6):
				session.sql('update kv set v = %d where k = 7' % (1000 + i))
				equal(session.scalar('select v from kv where k = 7'), str(1000 + i))
	finally:
		for replica in CLUSTER.replicas:
			replica.set_apply_delay(0)


def test_read_right_after_write_is_right_although_replay_is_held():
	for replica in CLUSTER.replicas:
		replica.pause_replay()
	try:
		with PROXY.session() as session:
			session.sql('update kv set v = 4711 where k = 8')
			row = session.sql('select v, inet_server_port() from kv where k = 8',
				timeout=15).rows[0]
			equal(row, ('4711', str(CLUSTER.primary.port)))
	finally:
		for replica in CLUSTER.replicas:
			replica.resume_replay()
	CLUSTER.wait_caught_up()


def _reads_behind_a_wait(ask):
	"""Writes and reads while the replicas apply 60 ms late: the read waits there and is right."""
	for replica in CLUSTER.replicas:
		replica.set_apply_delay(60)
	before = PROXY.reasons()
	try:
		with PROXY.session() as session:
			for i in range(1, 11):
				session.sql('update kv set v = %d where k = 11' % (2000 + i))
				value, port = ask(session,
					'select v, inet_server_port() from kv where k = 11').rows[0]
				equal(value, str(2000 + i))
				assert int(port) != CLUSTER.primary.port, 'read %d ran on the primary' % i
	finally:
		for replica in CLUSTER.replicas:
			replica.set_apply_delay(0)
	after = PROXY.reasons()
	grown = {k: after[k] - before.get(k, 0) for k in after}
	assert grown.get('read_with_wait', 0) >= 8, grown
	equal((grown.get('retry_on_primary', 0), grown.get('wait_timeout', 0)), (0, 0))


def test_reads_behind_a_wait_run_on_replicas_simple_protocol():
	_reads_behind_a_wait(lambda session, text: session.sql(text, timeout=15))


def test_reads_behind_a_wait_run_on_replicas_extended_protocol():
	_reads_behind_a_wait(lambda session, text: session.extended(text, timeout=15))


def test_error_position_behind_a_wait_is_that_of_the_clients_text():
	for replica in CLUSTER.replicas:
		replica.set_apply_delay(40)
	try:
		with PROXY.session() as session:
			for ask in (session.sql, session.extended):
				session.sql('update kv set v = v + 1 where k = 12')
				error = expect_error('42703', ask, 'select nope from kv', timeout=15)
				equal(error.fields.get('P'), '8')
	finally:
		for replica in CLUSTER.replicas:
			replica.set_apply_delay(0)


def test_created_table_is_seen_at_once():
	with PROXY.session() as session:
		for i in range(5):
			session.sql('create table fresh_%d (i int)' % i)
			equal(session.scalar('select count(*) from fresh_%d' % i), '0')
			session.sql('drop table fresh_%d' % i)
			expect_error('42P01', session.sql, 'select count(*) from fresh_%d' % i)


def test_reader_is_used_again_after_a_write_once_it_has_caught_up():
	with PROXY.session() as session:
		session.sql('update kv set v = 1 where k = 9')
		CLUSTER.wait_caught_up()
		eventually(lambda: int(session.scalar('select inet_server_port() from kv where k = 9')) !=
			CLUSTER.primary.port, what='read on a replica after the write')


def test_digest_table_tells_the_hostgroups():
	with PROXY.session() as session:
		session.sql('select v, 4242 from kv where k = 10')
		session.sql('update kv set v = 4242 where k = 10')
	rows = eventually(lambda: [r for r in PROXY.admin(
		'select hostgroup, digest_text, count_star, sum_time from stats_pgsql_query_digest').rows
		if 'kv' in r[1]], what='digests')
	reads = [r for r in rows if r[1].lower().startswith('select v,? from kv where k = ?')]
	writes = [r for r in rows if r[1].lower().startswith('update kv set v = ? where k = ?')]
	assert reads and int(reads[0][0]) == READER, rows
	assert writes and all(int(r[0]) == WRITER for r in writes), rows


def test_reasons_are_counted():
	before = PROXY.reasons()
	with PROXY.session() as session:
		for _ in range(10):
			session.sql('select v from kv where k = 1')
			session.sql('update kv set v = v where k = 1')
	after = PROXY.reasons()
	grown = sum(after.values()) - sum(before.values())
	assert grown >= 20, (before, after)


if __name__ == '__main__':
	runner.main(globals())
