"""What ReadyForQuery carries after each kind of statement."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from cluster import Cluster, eventually, lsn_number, template, wire  # noqa: E402
from cluster.workspace import give_to_server  # noqa: E402
from session import IDENTITY, plain, proxied  # noqa: E402

from . import case  # noqa: E402


def numbers(tail):
	return [int(x) for x in tail[1:].split(',')]


@case()
def nothing_requested_means_plain_messages(cluster, flavour):
	"""Without request every ReadyForQuery has 5 bytes of length, in a transaction too."""
	for session in (plain(cluster.primary), proxied(cluster.primary, lsn=False, xact=False)):
		with session:
			assert session.first.body == b'I'
			for sql in ("begin", "update items set note = note where id = 1", "commit"):
				assert len(session.do(sql).ready.body) == 1


@case()
def lsn_only_and_xact_only(cluster, flavour):
	"""Each half can be asked for alone; a marker without LSN starts right after the status."""
	with proxied(cluster.primary, xact=False) as session:
		session.do('begin')
		assert len(session.do("update items set note = note where id = 1").ready.body) == 9
	with proxied(cluster.primary, lsn=False) as session:
		assert session.first.body == b'I'
		session.do('begin')
		body = session.do("update items set note = note where id = 1").ready.body
		assert body[:3] == b'Tx1' and body[-1:] == b'\0', body


@case()
def legacy_names_work_and_mix(cluster, flavour):
	"""The names of the older kernel ask for the same, also mixed with new ones."""
	for names in ({'_polar_origin_client_ip': '127.0.0.1', '_polar_origin_client_port': '1',
			'_polar_send_lsn': 'true', '_polar_send_xact': 'on'},
			{'_polar_proxy_client_host': '127.0.0.1', '_polar_origin_client_port': '1',
			'_polar_send_lsn': '1', '_polar_proxy_send_xact': 'yes'}):
		with plain(cluster.primary, lsn=True, xact=True, **names) as session:
			session.do('begin')
			ready = session.do("update items set note = note where id = 1").ready
			assert ready.lsn and ready.marker == 'x', ready.body


@case()
def reads_and_empty_transactions_have_no_tail(cluster, flavour):
	"""Before the first XID a transaction shows its LSN only."""
	with proxied(cluster.primary) as session:
		for sql in ('begin', 'select count(*) from items', 'set local work_mem = 1024',
				'declare c cursor for select 1', 'prepare p as select 1', 'notify n', 'savepoint s',
				'select pg_advisory_xact_lock(1)', 'lock table items in exclusive mode', ''):
			ready = session.do(sql).ready
			assert (ready.status, ready.tail) == ('T', ''), (sql, ready.body)
			assert ready.lsn > 0
		ready = session.do('commit').ready
		assert (ready.status, ready.tail) == ('I', '')


@case()
def writes_show_command_id_and_xids(cluster, flavour):
	"""x, the command id counting up, and the same XID until the transaction ends."""
	with proxied(cluster.primary) as session:
		session.do('begin')
		first = session.do("insert into items values (1001, 'a')").ready
		xid = first.xid_list[0]
		assert first.tail == 'x1,%d' % xid
		assert session.do('select count(*) from items').ready.tail == 'x1,%d' % xid
		assert session.do("insert into items values (1002, 'b')").ready.tail == 'x2,%d' % xid
		third = session.do("update items set note = 'c' where id = 2").ready
		assert third.tail == 'x3,%d' % xid
		assert session.value('select pg_current_xact_id()') == str(xid)
		ended = session.do('rollback').ready
		assert (ended.status, ended.tail) == ('I', '')


@case()
def savepoints_change_the_list(cluster, flavour):
	"""Each level that wrote is listed, released ones stay, rolled back ones go; top level last."""
	with proxied(cluster.primary) as session:
		session.do('begin')
		top, = session.do("update items set note = 'top' where id = 1").ready.xid_list
		assert session.do('savepoint s1').ready.tail == 'x1,%d' % top
		one = session.do("update items set note = 's1' where id = 2").ready
		assert one.tail == 'x2,%d,%d' % (top + 1, top)
		session.do('savepoint s2')
		two = session.do("update items set note = 's2' where id = 3").ready
		assert two.tail == 'x3,%d,%d,%d' % (top + 2, top + 1, top)
		released = session.do('release s2').ready
		assert sorted(released.xid_list) == [top, top + 1, top + 2] and released.marker == 'x'
		back = session.do('rollback to s1').ready
		assert back.xid_list == [top] and back.marker == 'x'
		assert numbers(back.tail)[0] >= 3, 'the command id never goes back'
		again = session.do("update items set note = 's1' where id = 4").ready
		assert again.xid_list == [top + 3, top]
		session.do('rollback')


@case()
def first_write_inside_a_savepoint_gives_both_levels(cluster, flavour):
	"""The parent gets an XID too."""
	with proxied(cluster.primary) as session:
		session.do('begin; savepoint a')
		ready = session.do("insert into items values (1001, 'a')").ready
		sub, top = ready.xid_list
		assert ready.tail == 'x1,%d,%d' % (sub, top) and sub == top + 1
		session.do('rollback')


@case()
def hundred_and_too_many_savepoints(cluster, flavour):
	"""101 XIDs are sent; beyond 1024 the transaction is marked w and the message stays small."""
	with proxied(cluster.primary) as session:
		session.do('begin; create temp table if not exists spare (i int); rollback; begin')
		session.do("update items set note = 'x' where id = 1")
		for i in range(100):
			session.do("savepoint s%d; insert into items values (%d, 'n')" % (i, 2000 + i))
		ready = session.do('select 1').ready
		assert ready.marker == 'x' and len(ready.xid_list) == 101, ready.tail
		session.do('rollback')
		session.do('begin')
		ready = session.do("do $$ begin for i in 1..1100 loop begin insert into items values "
			"(3000 + i, 'n'); exception when division_by_zero then null; end; end loop; end $$").ready
		assert ready.marker == 'w' and len(ready.body) < 40, ready.tail[:60]
		session.do('rollback')


@case()
def kinds_that_can_be_split(cluster, flavour):
	"""Row locks, COPY, writing CTEs, EXCEPTION blocks, nextval and the like are x."""
	setup = "create sequence if not exists numbers; create unlogged table if not exists volatile (i int)"
	cluster.primary.sql(setup)
	with proxied(cluster.primary) as session:
		for sql in ('select * from items where id = 1 for update', 'select * from items where id = 1 for share',
				'select * from items where id = 1 for key share', 'select txid_current()',
				"select pg_logical_emit_message(true, 'a', 'b')", "select nextval('numbers')",
				"with w as (insert into items values (1001, 'a') returning 1) select * from w",
				"do $$ begin insert into items values (1001, 'a'); exception when others then null; end $$",
				"insert into volatile values (1)",
				"select * from items where id = 1 for update; update items set note = 'u' where id = 1"):
			session.do('begin')
			ready = session.do(sql).ready
			assert ready.marker == 'x', (sql, ready.tail)
			session.do('rollback')
		session.do('begin')
		session.wire.send(wire.query('copy items from stdin'))
		session.wire.read_until('G')
		ready = session.exchange(wire.copy_data(b"1001\ta\n") + wire.copy_done()).ready
		assert ready.marker == 'x', ready.body
		session.do('rollback')


@case()
def kinds_that_cannot_be_split(cluster, flavour):
	"""Exclusive locks, DDL, temporary tables, rows changed twice: w, also after ROLLBACK TO."""
	primary = cluster.primary
	primary.sql("create type mood as enum ('a')")
	with proxied(primary) as session:
		for sql in ('lock table items in access exclusive mode', 'create table made (i int)',
				'create temp table made (i int)', 'create index on items (note)',
				'create view made as select 1', 'create sequence made', 'alter table items add extra int',
				'truncate items', "alter type mood add value 'b'",
				'create function made() returns int language sql as $$ select 1 $$',
				"comment on table items is 'c'", 'grant select on items to public', 'analyze items',
				"insert into items values (1001, 'a'); update items set note = 'b' where id = 1001",
				"insert into items values (1001, 'a'); delete from items where id = 1001",
				"update items set note = 'a' where id = 1; update items set note = 'b' where id = 1",
				"do $$ begin execute 'create role made'; end $$"):
			session.do('begin; savepoint s')
			ready = session.do(sql).ready
			assert ready.marker == 'w', (sql, ready.body)
			assert ready.xid_list, (sql, ready.body)
			session.do('rollback to s')
			after = session.do("update items set note = 'z' where id = 20").ready
			assert after.marker == 'w', ('after rollback to', sql, after.body)
			session.do('rollback')
			session.do('begin')
			assert session.do("update items set note = 'z' where id = 20").ready.marker == 'x', sql
			session.do('rollback')


@case()
def other_isolation_levels_are_w(cluster, flavour):
	"""Only READ COMMITTED can be split."""
	with proxied(cluster.primary) as session:
		for level in ('repeatable read', 'serializable', 'read uncommitted'):
			session.do('begin isolation level ' + level)
			assert session.do('select 1').ready.tail == ''
			assert session.do("update items set note = 'z' where id = 20").ready.marker == 'w', level
			session.do('rollback')


@case()
def chained_transactions_start_clean(cluster, flavour):
	"""AND CHAIN ends what made a transaction w."""
	with proxied(cluster.primary) as session:
		session.do('begin')
		assert session.do('create table made (i int)').ready.marker == 'w'
		chained = session.do('rollback and chain').ready
		assert (chained.status, chained.tail) == ('T', '')
		assert session.do("update items set note = 'z' where id = 20").ready.marker == 'x'
		session.do('rollback')


@case()
def errors_and_ends_have_no_marker(cluster, flavour):
	"""A failed transaction, and one that has ended in any way, shows no XIDs."""
	with proxied(cluster.primary) as session:
		session.do("begin; update items set note = 'z' where id = 20")
		failed = session.run('select 1/0').ready
		assert (failed.status, failed.tail) == ('E', ''), failed.body
		assert session.run('select 1').ready.tail == ''
		assert session.do('rollback').ready.tail == ''
		session.do("begin; update items set note = 'z' where id = 20; savepoint s")
		session.run('select 1/0')
		back = session.do('rollback to s').ready
		assert (back.status, back.marker) == ('T', 'x'), back.body
		session.do('rollback')
		assert session.run('select 1/0').ready.status == 'I'
		session.do("begin; update items set note = 'z' where id = 20")
		ready = session.do("prepare transaction 'two'").ready
		assert (ready.status, ready.tail) == ('I', '')
		prepared = session.do("rollback prepared 'two'").ready
		assert (prepared.status, prepared.tail) == ('I', '')


@case()
def implicit_blocks_have_no_marker(cluster, flavour):
	"""Several statements in one message have ended when ReadyForQuery comes."""
	with proxied(cluster.primary) as session:
		ready = session.do("update items set note = 'q' where id = 20; select 1").ready
		assert (ready.status, ready.tail) == ('I', '')


@case()
def extended_protocol_is_the_same(cluster, flavour):
	"""One tail with each Sync."""
	with proxied(cluster.primary) as session:
		assert session.extended('select 1').ready.lsn > 0
		session.extended('begin')
		ready = session.extended('update items set note = $1 where id = 20', ['e']).ready
		assert ready.tail == 'x1,%d' % ready.xid_list[0]
		failed = session.extended('select 1/0').ready
		assert (failed.status, failed.tail) == ('E', '')
		session.extended('rollback')
		session.wire.send(wire.sync() + wire.sync())
		assert session.receive().ready.lsn == session.receive().ready.lsn > 0


@case()
def a_function_call_message_has_a_tail(cluster, flavour):
	"""The fast-path function call ends with the same ReadyForQuery."""
	with proxied(cluster.primary) as session:
		oid = session.value("select 'int4pl'::regproc::oid")
		body = (int(oid)).to_bytes(4, 'big') + b'\0\0' + (2).to_bytes(2, 'big')
		for number in (b'1', b'2'):
			body += (1).to_bytes(4, 'big') + number
		answer = session.exchange(wire.frame('F', body + b'\0\0'))
		assert answer.kinds == 'VZ' and answer.ready.lsn > 0, answer.messages


@case()
def commit_lsn_covers_the_commit(cluster, flavour):
	"""The LSN after an autocommit write is flushed and a replica that reached it shows the write."""
	with proxied(cluster.primary) as session:
		for i in range(20):
			lsn = session.do("update items set note = 'n%d' where id = 3" % i).ready.lsn
			assert lsn_number(cluster.primary.scalar('select pg_current_wal_flush_lsn()')) >= lsn
			replica = cluster.replicas[i % 2]
			eventually(lambda r=replica, at=lsn: r.lsn() >= at, what='replay')
			assert replica.scalar('select note from items where id = 3') == 'n%d' % i


@case()
def asynchronous_commit_is_covered(cluster, flavour):
	"""With synchronous_commit off the session's own commit is still in the LSN."""
	with proxied(cluster.primary) as session:
		session.do('set synchronous_commit = off')
		before = lsn_number(session.value('select pg_current_wal_insert_lsn()'))
		assert session.do("update items set note = 'async' where id = 4").ready.lsn > before


@case()
def other_sessions_unflushed_wal_is_not_asked_for(cluster, flavour):
	"""The LSN names what is flushed, not the insert position, so that no reader waits for others."""
	with plain(cluster.primary) as writer, proxied(cluster.primary) as session:
		writer.do("begin")
		for i in range(50):
			writer.do("insert into items values (%d, 'open')" % (4000 + i))
			ready = session.do('select 1').ready
			assert ready.lsn <= lsn_number(cluster.primary.scalar('select pg_current_wal_flush_lsn()'))
		writer.do('rollback')


@case()
def own_open_wal_is_in_the_lsn(cluster, flavour):
	"""Inside a transaction the LSN covers the session's own records, flushed or not."""
	with proxied(cluster.primary) as session:
		session.do('begin')
		ready = session.do("update items set note = 'own' where id = 5").ready
		insert = lsn_number(session.value('select pg_current_wal_insert_lsn()'))
		assert ready.lsn <= insert
		assert insert - ready.lsn < 64, 'nothing else writes here: %x %x' % (ready.lsn, insert)
		flushed = lsn_number(session.value('select polar_flush_xact()'))
		assert flushed == ready.lsn
		assert lsn_number(session.value('select pg_current_wal_flush_lsn()')) >= ready.lsn
		session.do('rollback')


@case()
def open_transaction_wal_settings(cluster, flavour):
	"""report: w until flushed; flush: x and flushed; ignore: x and not flushed."""
	primary = cluster.primary
	flush = 'select pg_current_wal_flush_lsn()'
	with proxied(primary) as session:
		for setting, marker in (('ignore', 'x'), ('report', 'w'), ('flush', 'x')):
			session.do("set polar_proxy.open_transaction_wal = %s" % setting)
			session.do('begin')
			ready = session.do("update items set note = 'open' where id = 6").ready
			assert ready.marker == marker, (setting, ready.body)
			flushed = lsn_number(primary.scalar(flush)) >= ready.lsn
			assert flushed == (setting == 'flush'), setting
			session.do('select polar_flush_xact()')
			assert session.do('select 1').ready.marker == 'x', setting
			session.do('rollback')


@case()
def standby_sends_its_replay_position(cluster, flavour):
	"""LSN only, at every moment, and it moves with replay."""
	replica = cluster.replicas[0]
	with proxied(cluster.primary) as writer, proxied(replica) as session:
		lsn = writer.do("update items set note = 'r' where id = 7").ready.lsn
		eventually(lambda: session.do('select 1').ready.lsn >= lsn, what='replay in ReadyForQuery')
		for sql in ('begin', 'select count(*) from items', 'savepoint a', 'commit'):
			assert session.do(sql).ready.tail == ''
		session.do('begin')
		assert session.run("insert into items values (1, 'x')").sqlstate == '25006'
		assert session.do('rollback').ready.lsn >= lsn


@case()
def parallel_queries_keep_the_tail(cluster, flavour):
	"""Workers replace the message functions of their own process only."""
	with proxied(cluster.primary) as session:
		session.do('set force_parallel_mode = on')
		answer = session.do('select count(*) from items')
		assert answer.ready.lsn > 0 and answer.kinds == 'TDCZ'


@case()
def replication_sessions_have_no_tail(cluster, flavour):
	"""A walsender never gets the tail, even when it asks."""
	for mode in ('true', 'database'):
		with plain(cluster.primary, replication=mode, _polar_proxy_client_host='127.0.0.1',
				_polar_proxy_client_port='1', _polar_proxy_send_lsn='true') as session:
			assert session.first.body == b'I'
			assert session.do('IDENTIFY_SYSTEM').ready.body == b'I'


@case()
def tls_sessions_have_the_same_tail(cluster, flavour):
	"""The tail goes through TLS unchanged."""
	with Cluster(cluster.flavour, replicas=0, start=False) as own:
		node = own.primary
		key, crt = (os.path.join(node.datadir, name) for name in ('server.key', 'server.crt'))
		subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=test',
			'-days', '2', '-keyout', key, '-out', crt], check=True, stderr=subprocess.DEVNULL)
		give_to_server(node.datadir)
		template.write_settings(node.datadir, {'ssl': 'on'})
		node.start()
		session = wire.Wire(node.address)
		session.start_tls()
		messages = session.login('postgres', None, 'postgres', _polar_proxy_send_lsn='on',
			_polar_proxy_send_xact='on', **IDENTITY)
		assert len(messages[-1][1]) == 9, messages[-1]
		session.execute('begin; create temp table a (i int)')
		session.send(wire.query('insert into a values (1)'))
		body = session.read_ready()[-1][1]
		assert body[:1] == b'T' and body[9:10] == b'w' and body[-1:] == b'\0', body
		session.close()
