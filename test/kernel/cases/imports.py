"""XID import: what a standby session sees of the primary's open transaction, and who else sees it."""
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from cluster import eventually, wire  # noqa: E402
from session import plain, proxied  # noqa: E402

from . import case  # noqa: E402

ALL = 'select id, note from items where id <= 20 or id between 5000 and 5999 order by id'


class Pair:
	"""A writing session on the primary and a reading one on a standby."""

	def __init__(self, cluster, replica=0, **params):
		self.node = cluster.replicas[replica]
		self.primary = cluster.primary
		self.writer = proxied(cluster.primary, **params)
		self.reader = proxied(self.node, **params)

	def __enter__(self):
		return self

	def __exit__(self, *unused):
		self.writer.wire.close()
		self.reader.wire.close()
		self.primary.sql('delete from items where id >= 1000')

	def write(self, *statements):
		"""Runs them on the primary; the last ReadyForQuery, whose WAL the standby then has."""
		for sql in statements:
			ready = self.writer.do(sql).ready
		if ready.marker:
			self.writer.do('select polar_flush_xact()')
		eventually(lambda: self.node.lsn() >= ready.lsn, what='replay of the open transaction')
		return ready

	def see(self, ready, sql=ALL, local=True):
		"""What a read with the imported XIDs shows: SETs and read in one message."""
		assert ready.marker == 'x', ready.body
		word = 'local ' if local else ''
		return self.reader.do("set %spolar_xact_split_xids = '%s'; set %spolar_xact_split_wait_lsn = "
			"'%d'; %s" % (word, ready.xids, word, ready.lsn, sql)).rows

	def same(self, ready):
		"""The standby's view with the XIDs equals the primary's inside the transaction."""
		mine = self.writer.do(ALL).rows
		theirs = self.see(ready)
		assert mine == theirs, 'primary %s\nstandby %s' % (mine, theirs)
		return mine


@case('kernel')
def inserts_updates_deletes_are_seen(cluster, flavour):
	"""One message with SETs and read: new rows here, old rows in every other session and afterwards."""
	with Pair(cluster) as pair, plain(pair.node) as other, plain(cluster.replicas[1]) as elsewhere:
		before = other.do(ALL).rows
		ready = pair.write('begin', "insert into items select i, 'new' from generate_series(5000, 5009) i",
			"update items set note = 'changed' where id = 1", 'delete from items where id in (2, 3)')
		rows = pair.same(ready)
		assert rows != before and len(rows) == len(before) + 8
		assert ('1', 'changed') in rows and ('2', 'old') not in rows and ('5009', 'new') in rows
		for session in (other, elsewhere, pair.reader):
			assert session.do(ALL).rows == before, 'nobody without the XIDs sees it'
		pair.writer.do('rollback')
		eventually(lambda: pair.node.lsn() >= ready.lsn)
		assert pair.reader.do(ALL).rows == other.do(ALL).rows == before


@case('kernel')
def after_commit_everybody_sees_it(cluster, flavour):
	"""Commit makes the rows visible to all, and the hint bits the import could have left are right."""
	with Pair(cluster) as pair, plain(pair.node) as other:
		ready = pair.write('begin', "insert into items values (5000, 'kept')",
			"update items set note = 'kept' where id = 4", 'delete from items where id = 5')
		rows = pair.same(ready)
		ended = pair.write('commit')
		assert pair.writer.do(ALL).rows == rows
		eventually(lambda: other.do(ALL).rows == rows, what='commit on the standby')
		assert pair.reader.do(ALL).rows == rows and ended.tail == ''
		pair.writer.do("update items set note = 'old' where id = 4; insert into items values (5, 'old')")


@case('kernel')
def rollback_leaves_nothing(cluster, flavour):
	"""Read with import many times, roll back, then every session sees the old rows, after a restart too."""
	with Pair(cluster) as pair:
		before = pair.reader.do(ALL).rows
		ready = pair.write('begin', "insert into items values (5000, 'gone')",
			"update items set note = 'gone' where id = 6", 'delete from items where id = 7')
		for _ in range(5):
			pair.same(ready)
		ended = pair.write('rollback')
		assert ended.tail == ''
		mark = pair.write("update items set note = note where id = 20")
		eventually(lambda: pair.node.lsn() >= mark.lsn)
		assert pair.reader.do(ALL).rows == before
		with plain(pair.node) as other:
			assert other.do(ALL).rows == before


@case('kernel')
def a_stale_list_leaves_no_wrong_hint(cluster, flavour):
	"""A reader whose list misses the XID that deleted a row must not mark the row as never deleted."""
	with Pair(cluster) as pair, plain(pair.node) as other:
		stale = pair.write('begin', "insert into items values (5000, 'a')")
		later = pair.write('savepoint s', 'delete from items where id = 5000')
		assert later.marker == 'w'
		pair.writer.do('select polar_flush_xact()')
		eventually(lambda: pair.node.lsn() >= later.lsn, what='replay of the delete')
		# Wrong, which is why a proxy must never do this; but wrong for this reader only.
		assert pair.see(stale, 'select count(*) from items where id = 5000') == [('1',)]
		ended = pair.write('commit')
		eventually(lambda: pair.node.lsn() >= ended.lsn)
		assert other.value('select count(*) from items where id = 5000') == '0'


@case('kernel')
def savepoints_released_and_rolled_back(cluster, flavour):
	"""After each step the standby shows exactly what the primary shows inside the transaction."""
	with Pair(cluster) as pair:
		steps = ('begin', "insert into items values (5000, 'top')", 'savepoint a',
			"insert into items values (5001, 'a')", 'savepoint b', "update items set note = 'b' where id = 9",
			'release b', 'savepoint c', 'delete from items where id = 10', 'rollback to c',
			"insert into items values (5002, 'after c')", 'release c', 'rollback to a',
			"insert into items values (5003, 'after a')", 'release a', 'delete from items where id = 11')
		seen = set()
		for number, sql in enumerate(steps):
			ready = pair.write(sql)
			if number > 0:
				seen.add(str(pair.same(ready)))
		assert len(seen) > 6, 'the steps differ'
		pair.writer.do('rollback')


@case('kernel')
def first_write_in_a_savepoint(cluster, flavour):
	"""Both levels' XIDs are imported, and rolling the savepoint back hides its rows again."""
	with Pair(cluster) as pair:
		ready = pair.write('begin', 'savepoint a', "insert into items values (5000, 'a')")
		assert ('5000', 'a') in pair.same(ready)
		ready = pair.write('rollback to a')
		assert ('5000', 'a') not in pair.same(ready)
		pair.writer.do('rollback')


@case('kernel')
def exception_blocks_and_many_subtransactions(cluster, flavour):
	"""Sub-XIDs of PL/pgSQL handlers, and more than a snapshot can hold (overflow)."""
	with Pair(cluster) as pair:
		ready = pair.write('begin', "do $$ begin for i in 5000..5199 loop begin insert into items values "
			"(i, 'sub'); if i % 3 = 0 then perform 1 / 0; end if; exception when division_by_zero then null; "
			"end; end loop; end $$")
		assert len(ready.xid_list) > 100
		rows = pair.same(ready)
		assert 130 < len([r for r in rows if r[1] == 'sub']) < 140
		pair.writer.do('rollback')


@case('kernel')
def explicit_block_keeps_it(cluster, flavour):
	"""BEGIN; SET; read; read in separate messages; newer XIDs replace it; '' and RESET end it."""
	with Pair(cluster) as pair:
		read = "select note from items where id in (5000, 5001) order by id"
		first = pair.write('begin', "insert into items values (5000, 'one')")
		reader = pair.reader
		reader.do('begin')
		assert reader.do(read).rows == []
		reader.do("set polar_xact_split_xids = '%s'" % first.xids)
		assert reader.do(read).rows == [('one',)] == reader.extended(read).rows
		second = pair.write('savepoint s', "insert into items values (5001, 'two')")
		assert reader.do(read).rows == [('one',)]
		reader.do("set local polar_xact_split_xids = '%s'" % second.xids)
		assert reader.do(read).rows == [('one',), ('two',)]
		reader.do("set polar_xact_split_xids = ''")
		assert reader.do(read).rows == []
		reader.do("set polar_xact_split_xids = '%s'" % second.xids)
		assert len(reader.do(read).rows) == 2
		reader.do('reset polar_xact_split_xids')
		assert reader.do(read).rows == []
		reader.do("select set_config('polar_xact_split_xids', '%s', true)" % second.xids)
		assert len(reader.do(read).rows) == 2
		assert reader.value('show polar_xact_split_xids') == ''
		reader.do('commit')
		assert reader.do(read).rows == []
		pair.writer.do('rollback')


@case('kernel')
def savepoint_on_the_standby_undoes_it(cluster, flavour):
	"""SET inside a savepoint is undone by ROLLBACK TO and kept by RELEASE."""
	with Pair(cluster) as pair:
		ready = pair.write('begin', "insert into items values (5000, 'one')")
		reader, read = pair.reader, 'select count(*) from items where id = 5000'
		reader.do('begin; savepoint a')
		reader.do("set polar_xact_split_xids = '%s'" % ready.xids)
		assert reader.value(read) == '1'
		reader.do('rollback to a')
		assert reader.value(read) == '0'
		reader.do("set polar_xact_split_xids = '%s'" % ready.xids)
		reader.do('release a')
		assert reader.value(read) == '1'
		reader.do("savepoint b; set polar_xact_split_xids = ''")
		assert reader.value(read) == '0'
		reader.do('rollback to b')
		assert reader.value(read) == '1'
		reader.do('rollback')
		assert reader.value(read) == '0'
		pair.writer.do('rollback')


@case('kernel')
def repeatable_read_on_the_standby(cluster, flavour):
	"""XIDs set before the first snapshot count; the transaction keeps them."""
	with Pair(cluster) as pair:
		ready = pair.write('begin', "insert into items values (5000, 'one')")
		reader, read = pair.reader, 'select count(*) from items where id = 5000'
		reader.do("begin isolation level repeatable read; set local polar_xact_split_xids = '%s'" % ready.xids)
		assert reader.value(read) == reader.value(read) == '1'
		reader.do('commit')
		assert reader.value(read) == '0'
		pair.writer.do('rollback')


@case('kernel')
def plain_set_acts_for_one_transaction(cluster, flavour):
	"""A session-level SET does not act in later transactions, and later SET LOCALs do not bring it back."""
	with Pair(cluster) as pair:
		ready = pair.write('begin', "insert into items values (5000, 'one')")
		reader, read = pair.reader, 'select count(*) from items where id = 5000'
		assert pair.see(ready, read, local=False) == [('1',)]
		assert reader.value(read) == '0'
		reader.do('begin')
		assert reader.value(read) == '0'
		reader.do("savepoint a; set local polar_xact_split_xids = '1,3'")
		reader.do('rollback to a')
		assert reader.value(read) == '0', 'the left-over value must not act'
		reader.do('commit')
		reader.do('set force_parallel_mode = on')
		assert reader.value(read) == '0', 'a left-over value does not disturb workers'
		reader.do('discard all')
		assert reader.value(read) == '0'
		pair.writer.do('rollback')


@case('kernel')
def command_id_is_a_lower_bound(cluster, flavour):
	"""Command id 0 shows nothing of the transaction, the reported one everything."""
	with Pair(cluster) as pair:
		ready = pair.write('begin', "insert into items values (5000, 'one')",
			"insert into items values (5001, 'two')")
		read = 'select count(*) from items where id between 5000 and 5001'
		xids = ready.xids.split(',', 1)[1]
		assert pair.reader.do("set local polar_xact_split_xids = '0,%s'; %s" % (xids, read)).value == '0'
		assert pair.reader.do("set local polar_xact_split_xids = '2,%s'; %s" % (xids, read)).value == '2'
		assert pair.reader.do("set local polar_xact_split_xids = '0,0'; %s" % read).value == '0'
		pair.writer.do('rollback')


@case('kernel')
def full_page_images_are_right(cluster, flavour):
	"""Rows that reached the standby inside a full-page image carry real command ids, and are seen."""
	with Pair(cluster) as pair:
		pair.write('begin', *["insert into items values (%d, 'row')" % (5000 + i) for i in range(12)])
		cluster.primary.sql('checkpoint')
		ready = pair.write("insert into items values (5100, 'image')", 'delete from items where id = 12')
		pair.same(ready)
		pair.writer.do('rollback')


@case('kernel')
def access_paths(cluster, flavour):
	"""Index scan, index-only scan, cursor, PL/pgSQL, prepared statements and joins agree."""
	with Pair(cluster) as pair:
		ready = pair.write('begin', "insert into items values (5000, 'one')",
			"update items set note = 'two' where id = 13")
		reader = pair.reader
		reader.wire.send(wire.parse('select note from items where id = $1', 'kept') + wire.sync())
		reader.receive()
		reader.do("prepare own as select note from items where id = 13")
		reader.do('begin')
		reader.do("set local polar_xact_split_xids = '%s'" % ready.xids)
		for setting in ('set local enable_seqscan = off', 'set local enable_bitmapscan = off',
				'set local enable_indexscan = off; set local enable_seqscan = on'):
			reader.do(setting)
			assert reader.value('select note from items where id = 5000') == 'one'
			assert reader.value('select count(*) from items where id >= 5000') == '1'
			assert reader.value('select note from items where id = 13') == 'two'
		reader.do('declare c cursor for select note from items where id in (13, 5000) order by id')
		assert reader.do('fetch all from c').rows == [('two',), ('one',)]
		answer = reader.exchange(wire.bind([5000], 'kept') + wire.execute() + wire.sync())
		assert answer.value == 'one'
		assert reader.value('execute own') == 'two'
		reader.do("do $$ begin assert (select note from items where id = 5000) = 'one'; "
			"begin perform 1 / 0; exception when division_by_zero then "
			"assert (select note from items where id = 13) = 'two'; end; end $$")
		assert reader.value('select count(*) from items a join items b using (id) where id = 5000') == '1'
		reader.do('commit')
		pair.writer.do('rollback')


@case('kernel')
def parallel_plans_run_without_workers(cluster, flavour):
	"""With import a parallel plan gives the right answer and starts no worker; without, it starts one."""
	with Pair(cluster) as pair:
		ready = pair.write('begin', "insert into items select i, 'p' from generate_series(5000, 5099) i")
		reader, count = pair.reader, 'select count(*) from items where id >= 5000'
		reader.do('set force_parallel_mode = on')
		assert reader.do('explain (analyze, costs off, timing off) ' + count).rows, 'warm'
		plan = str(reader.do('explain (analyze) ' + count).rows)
		assert 'Workers Launched: 1' in plan, plan
		reader.do("begin; set local polar_xact_split_xids = '%s'" % ready.xids)
		assert reader.value(count) == '100'
		assert reader.extended(count).value == '100'
		plan = str(reader.do('explain (analyze) ' + count).rows)
		assert 'Workers Launched: 0' in plan, plan
		reader.do("do $$ begin assert (select count(*) from items where id >= 5000) = 100; end $$")
		reader.do('commit')
		assert reader.value(count) == '0'
		pair.writer.do('rollback')


@case('kernel')
def extended_protocol_in_a_pipeline(cluster, flavour):
	"""BEGIN, SETs, read, COMMIT before one Sync; without BEGIN the SET is refused."""
	with Pair(cluster) as pair:
		ready = pair.write('begin', "insert into items values (5000, 'one')")
		setting = "set local polar_xact_split_xids = '%s'" % ready.xids

		def frames(sql):
			return wire.parse(sql, 'own') + wire.bind((), 'own', 'own') + wire.execute('own') + (
				wire.close('P', 'own') + wire.close('S', 'own'))
		answer = pair.reader.extended('select note from items where id = 5000',
			before=frames('begin') + frames(setting))
		assert answer.rows == [('one',)] and answer.ready.status == 'T', answer.messages
		pair.reader.do('commit')
		answer = pair.reader.extended('select 1', before=frames(setting))
		assert answer.error['M'] == 'Unable to start xact split without begin', answer.error
		assert pair.reader.do('select note from items where id = 5000').rows == []
		pair.writer.do('rollback')


@case('kernel')
def errors_end_the_import(cluster, flavour):
	"""After an error the transaction is failed as usual; ROLLBACK clears everything."""
	with Pair(cluster) as pair:
		ready = pair.write('begin', "insert into items values (5000, 'one')")
		reader, read = pair.reader, 'select count(*) from items where id = 5000'
		answer = reader.run("set local polar_xact_split_xids = '%s'; %s; select 1 / 0" % (ready.xids, read))
		assert answer.sqlstate == '22012' and answer.ready.status == 'I'
		assert reader.value(read) == '0'
		reader.do("begin; set local polar_xact_split_xids = '%s'" % ready.xids)
		reader.run('select 1 / 0')
		assert reader.run("set local polar_xact_split_xids = ''").sqlstate == '25P02'
		reader.do('rollback')
		assert reader.value(read) == '0'
		pair.writer.do('rollback')


@case('kernel')
def writes_stay_forbidden(cluster, flavour):
	"""Import does not make a standby writable, nor lock rows."""
	with Pair(cluster) as pair:
		ready = pair.write('begin', "insert into items values (5000, 'one')")
		for sql in ("insert into items values (5001, 'x')", 'select * from items for update',
				'lock table items', 'create temp table x (i int)', 'select txid_current()', 'listen x'):
			answer = pair.reader.run("set local polar_xact_split_xids = '%s'; %s" % (ready.xids, sql))
			assert answer.sqlstate in ('25006', '55000'), (sql, answer.errors)
		pair.writer.do('rollback')


@case('kernel')
def refused_uses(cluster, flavour):
	"""Primary, outside a transaction, bad lists, startup options, and users who are nobody."""
	with proxied(cluster.primary) as session:
		session.do('begin')
		answer = session.run("set polar_xact_split_xids = '1,750'")
		assert (answer.sqlstate, answer.error['M']) == ('XX000', 'Unable to start xact split in primary')
		session.do("rollback; set polar_xact_split_xids = ''")
	with proxied(cluster.replicas[0]) as session:
		for word in ('', 'local '):
			answer = session.run("set %spolar_xact_split_xids = '1,750'" % word)
			assert (answer.sqlstate, answer.error['M']) == (
				'XX000', 'Unable to start xact split without begin'), answer.error
		for value, state, text in (('5', 'XX000', 'polar_xact_split_xids is too short.'),
				('1,', 'XX000', 'not an valid xid array'), (',', 'XX000', 'not an valid xid array'),
				('1,,2', 'XX000', 'not an valid xid array'), ('1,a', '22P02', 'invalid input syntax'),
				('1,-5', '22P02', 'invalid input syntax'), ('a,5', '22P02', 'invalid input syntax'),
				('1,5 6', '22P02', 'invalid input syntax'), ('1,99999999999999999999999', '22003', 'out of range')):
			answer = session.run("begin; set polar_xact_split_xids = '%s'" % value)
			assert answer.sqlstate == state and text in answer.error['M'], (value, answer.error)
			session.do('rollback')
		session.do("begin; set polar_xact_split_xids = ' 1 , 5, 6 '; set polar_xact_split_xids = "
			"'1,4294967296000'; rollback")
	# Straight from a client: only a superuser may.
	with plain(cluster.replicas[0], user='app_trust') as session:
		answer = session.run("begin; set local polar_xact_split_xids = '1,750'")
		assert answer.sqlstate == '42501', answer.error
	with plain(cluster.replicas[0]) as session:
		session.do("begin; set local polar_xact_split_xids = '1,750'; commit")
	with proxied(cluster.replicas[0], user='app_trust') as session:
		session.do("begin; set local polar_xact_split_xids = '1,750'; commit")
	try:
		plain(cluster.replicas[0], options='-c polar_xact_split_xids=1,750').wire.close()
	except wire.WireError as error:
		assert error.severity == 'FATAL'
	else:
		raise AssertionError('import accepted in startup options')


@case('extension')
def no_import_without_the_patch(cluster, flavour):
	"""The setting does not exist, which is how a proxy finds out."""
	with proxied(cluster.replicas[0]) as session:
		assert session.run("set polar_xact_split_xids = '1,750'").sqlstate == '42704'


@case('kernel')
def random_transactions_agree(cluster, flavour):
	"""Random writes and savepoints: whenever the marker is x, both servers show the same rows."""
	chance = random.Random(int(os.environ.get('KERNEL_CHECK_SEED', '4711')))
	compared = 0
	for _ in range(12):
		with Pair(cluster, replica=chance.randrange(2)) as pair:
			pair.writer.do('begin')
			open_savepoints = 0
			next_id = 5000
			for _ in range(chance.randrange(4, 16)):
				kind = chance.choice(['insert', 'insert', 'update', 'delete', 'save', 'release', 'back'])
				if kind == 'insert':
					sql = "insert into items values (%d, 'r')" % next_id
					next_id += 1
				elif kind == 'update':
					sql = "update items set note = note || 'u' where id = %d" % chance.randrange(1, 20)
				elif kind == 'delete':
					sql = 'delete from items where id = %d' % chance.randrange(1, 20)
				elif kind == 'save':
					open_savepoints += 1
					sql = 'savepoint p%d' % open_savepoints
				elif open_savepoints == 0:
					continue
				else:
					sql = '%s p%d' % ('release' if kind == 'release' else 'rollback to', open_savepoints)
					open_savepoints -= kind == 'release'
				ready = pair.write(sql)
				if ready.marker == 'x':
					pair.same(ready)
					compared += 1
				elif ready.marker == 'w':
					break
			pair.writer.do('rollback')
	assert compared > 20, compared
