"""The bounded wait: reached, not reached, interrupted; by setting and by message W."""
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from cluster import Cluster, eventually, wire  # noqa: E402
from session import (TIMEOUT_DETAIL, TIMEOUT_FUNCTION, plain, proxied, wait_message)  # noqa: E402

from . import case  # noqa: E402

FAR = 2 ** 62  # a position no test reaches


def wrapper(target, mode='strict', timeout_ms=5000, sql=''):
	return ("set polar_consistency_mode = '%s'; set polar_proxy_wait_timeout_ms = %d; "
		"set polar_xact_split_wait_lsn = '%d'; %s" % (mode, timeout_ms, target, sql))


def assert_timeout(fields, severity='ERROR'):
	assert fields['V'] == severity, fields
	assert fields['C'] == '57014', fields
	assert fields['D'] == TIMEOUT_DETAIL, fields
	assert fields['R'] == TIMEOUT_FUNCTION, fields
	assert fields['M'].startswith('LSN wait timeout'), fields


class Paused:
	"""Replay of a standby paused inside the block."""

	def __init__(self, node):
		self.node = node

	def __enter__(self):
		self.node.pause_replay()

	def __exit__(self, *unused):
		self.node.resume_replay()


def later(seconds, action):
	timer = threading.Timer(seconds, action)
	timer.start()
	return timer


def elapsed(action):
	start = time.monotonic()
	result = action()
	return result, time.monotonic() - start


def write(session, note, item=8):
	"""An autocommit write; its position."""
	return session.do("update items set note = '%s' where id = %d" % (note, item)).ready.lsn


READ = 'select note from items where id = 8'


@case()
def reached_target_reads_the_write(cluster, flavour):
	"""200 write/read pairs without a stale row, no wait near its bound."""
	with proxied(cluster.primary) as writer, proxied(cluster.replicas[0]) as reader:
		slowest = 0.0
		for i in range(200):
			lsn = write(writer, 'pair%d' % i)
			answer, seconds = elapsed(lambda at=lsn: reader.do(wrapper(at, sql=READ)))
			assert answer.rows == [('pair%d' % i,)]
			assert answer.kinds == 'CCCTDCZ', answer.kinds
			assert answer.ready.lsn >= lsn
			slowest = max(slowest, seconds)
		assert slowest < 5, slowest


@case()
def the_wait_ends_when_replay_gets_there(cluster, flavour):
	"""A paused replica answers right after replay resumes, not at the bound and not before."""
	node = cluster.replicas[0]
	with proxied(cluster.primary) as writer, proxied(node) as reader:
		with Paused(node):
			lsn = write(writer, 'resumed')
			assert reader.value(READ) != 'resumed'
			later(0.6, node.resume_replay)
			answer, seconds = elapsed(lambda: reader.do(wrapper(lsn, timeout_ms=20000, sql=READ)))
		assert answer.rows == [('resumed',)]
		assert 0.5 < seconds < 9, seconds


@case()
def wake_up_comes_at_once(cluster, flavour):
	"""Waiters are woken by replay itself: far faster than the 100 ms they would find it out in."""
	node = cluster.replicas[0]
	times = []
	with proxied(cluster.primary) as writer, proxied(node) as reader:
		reader.do("set polar_consistency_mode = 'strict'; set polar_proxy_wait_timeout_ms = 5000")
		for i in range(40):
			# The target is known before the write: an idle primary continues where it stopped.
			target = writer.do('select 1').ready.lsn + 1
			reader.wire.send(wire.query("set polar_xact_split_wait_lsn = '%d'; %s" % (target, READ)))
			time.sleep(0.01)
			write(writer, 'wake%d' % i)
			start = time.monotonic()
			answer = reader.receive()
			times.append(time.monotonic() - start)
			assert not answer.errors
	times.sort()
	assert times[len(times) // 2] < 0.04, times


@case()
def strict_timeout(cluster, flavour):
	"""strict: ERROR 57014 with both markers, after the bound, and the settings are rolled back."""
	with Paused(cluster.replicas[0]), proxied(cluster.replicas[0]) as reader:
		answer, seconds = elapsed(lambda: reader.run(wrapper(FAR, timeout_ms=300, sql=READ)))
		assert_timeout(answer.error)
		assert 0.29 < seconds < 9, seconds
		assert 'D' not in answer.kinds and answer.ready.status == 'I', answer.kinds
		# On the kernel the wait is the read's, on an unpatched server the SET's.
		assert answer.kinds == ('CCCEZ' if flavour == 'kernel' else 'CCEZ'), answer.kinds
		assert reader.do(READ).rows, 'the target has gone with the failed batch'
		assert reader.value('show polar_xact_split_wait_lsn') == ''
		assert reader.value('show polar_consistency_mode') == 'best_effort'


@case()
def best_effort_timeout(cluster, flavour):
	"""best_effort: one WARNING with the same markers, then the old rows, and no second wait."""
	node = cluster.replicas[0]
	with proxied(cluster.primary) as writer, proxied(node) as reader:
		with Paused(node):
			old = reader.value(READ)
			lsn = write(writer, 'late')
			answer, seconds = elapsed(
				lambda: reader.do(wrapper(lsn, 'best_effort', 300, READ + '; ' + READ)))
			assert answer.rows == [(old,), (old,)]
			assert len(answer.notices) == 1, answer.notices
			assert_timeout(answer.notices[0], 'WARNING')
			assert 0.29 < seconds < 9, seconds
			first_row = answer.kinds.index('T')
			assert answer.kinds.index('N') < first_row, answer.kinds
			assert not reader.do(READ).notices, 'a target is waited for once'
		lsn = write(writer, 'late2')
		assert reader.do(wrapper(lsn, 'best_effort', 5000, READ)).rows == [('late2',)]


@case()
def delayed_replay_is_waited_for(cluster, flavour):
	"""recovery_min_apply_delay: the wait lasts as long, and the row is there."""
	node = cluster.replicas[1]
	node.set_apply_delay(700)
	try:
		eventually(lambda: node.scalar('show recovery_min_apply_delay') == '700ms')
		with proxied(cluster.primary) as writer, proxied(node) as reader:
			lsn = write(writer, 'warm')
			reader.do(wrapper(lsn, timeout_ms=20000, sql=READ))
			time.sleep(0.1)
			lsn = write(writer, 'delayed')
			answer, seconds = elapsed(lambda: reader.do(wrapper(lsn, timeout_ms=20000, sql=READ)))
			assert answer.rows == [('delayed',)]
			assert 0.5 < seconds < 9, seconds
	finally:
		node.set_conf('recovery_min_apply_delay', None)


@case()
def cancel_and_statement_timeout_interrupt(cluster, flavour):
	"""Both act at once, as a plain 57014 without markers; the session goes on."""
	with Paused(cluster.replicas[0]), proxied(cluster.replicas[0]) as reader:
		cancel = later(0.3, reader.wire.cancel)
		answer, seconds = elapsed(lambda: reader.run(wrapper(FAR, timeout_ms=0, sql=READ)))
		# The postmaster signals the process and its group, one after the other: before the cancel
		# connection has closed, the second signal may still be to come and hit the next statement.
		cancel.join()
		assert answer.sqlstate == '57014' and 'D' not in answer.error, answer.error
		assert answer.error['R'] != TIMEOUT_FUNCTION and 0.25 < seconds < 9, seconds
		reader.do("set statement_timeout = '300ms'")
		answer, seconds = elapsed(lambda: reader.run(wrapper(FAR, timeout_ms=0, sql=READ)))
		assert answer.sqlstate == '57014' and 'D' not in answer.error, answer.error
		assert 'statement timeout' in answer.error['M'] and 0.25 < seconds < 9, seconds
		assert reader.do(READ).rows


@case()
def terminate_and_lost_client_interrupt(cluster, flavour):
	"""A terminated waiter ends at once; so does one whose client has gone (when that is checked)."""
	node = cluster.replicas[0]
	with Paused(node):
		reader = proxied(node)
		later(0.3, lambda: node.sql('select pg_terminate_backend(%d)' % reader.wire.pid))
		reader.wire.send(wire.query(wrapper(FAR, timeout_ms=0, sql=READ)))
		messages, seconds = elapsed(lambda: reader.wire.read_all(5))
		assert wire.error_fields(messages[-1][1])['C'] == '57P01' and seconds < 9, seconds
		reader.wire.close()
		gone = proxied(node)
		gone.do("set client_connection_check_interval = '100ms'")
		gone.wire.send(wire.query(wrapper(FAR, timeout_ms=0, sql=READ)))
		time.sleep(0.2)
		gone.wire.abort()
		eventually(lambda: node.scalar('select count(*) from pg_stat_activity where pid = %d' %
			gone.wire.pid) == '0', 9, 'the orphaned waiter ends')


@case()
def malformed_targets_are_refused(cluster, flavour):
	"""Only one decimal number; nothing is taken as 0 silently."""
	with proxied(cluster.replicas[0]) as reader:
		for value in ('abc', '0/1', '1/0', '-1', '+1', ' 1', '1 ', '12abc', '0x10', '18446744073709551616'):
			answer = reader.run("set polar_xact_split_wait_lsn = '%s'" % value)
			assert answer.sqlstate == '22023', (value, answer.errors)
		for name, value in (('polar_consistency_mode', 'maybe'), ('polar_proxy_wait_timeout_ms', '-1')):
			assert reader.run("set %s = '%s'" % (name, value)).sqlstate == '22023'
		for value in ('', '0', '1'):
			assert reader.do("set polar_xact_split_wait_lsn = '%s'; %s" % (value, READ)).rows
		assert reader.do('set polar_proxy_wait_timeout_ms = 250').kinds == 'CZ'


@case()
def target_survives_until_it_is_met(cluster, flavour):
	"""SET and read in separate messages; after the wait SHOW is empty; RESET drops a target."""
	node = cluster.replicas[0]
	with proxied(cluster.primary) as writer, proxied(node) as reader:
		lsn = write(writer, 'apart')
		reader.do(wrapper(lsn))
		assert reader.value(READ) == 'apart'
		assert reader.value('show polar_xact_split_wait_lsn') == ''
		if flavour == 'kernel':
			with Paused(node):
				reader.do(wrapper(FAR, timeout_ms=200))
				assert_timeout(reader.run(READ).error)
				assert_timeout(reader.run(READ).error)
				reader.do('reset polar_xact_split_wait_lsn')
				assert reader.do(READ).rows


@case()
def inside_transactions(cluster, flavour):
	"""BEGIN and SET LOCAL, READ COMMITTED and REPEATABLE READ: the read sees the write."""
	with proxied(cluster.primary) as writer, proxied(cluster.replicas[0]) as reader:
		for level in ('read committed', 'repeatable read'):
			for i in range(10):
				reader.do('begin isolation level %s read only' % level)
				lsn = write(writer, '%s%d' % (level, i))
				reader.do("set local polar_consistency_mode = 'strict'; "
					"set local polar_xact_split_wait_lsn = '%d'" % lsn)
				assert reader.extended(READ).rows == [('%s%d' % (level, i),)]
				reader.do('commit')
			assert reader.value('show polar_consistency_mode') == 'best_effort'


@case()
def a_failed_wait_fails_the_transaction(cluster, flavour):
	"""BEGIN; SET LOCAL; read: after a strict timeout nothing of the transaction can read."""
	with Paused(cluster.replicas[0]), proxied(cluster.replicas[0]) as reader:
		answer = reader.run('begin; set local polar_consistency_mode = strict; set local '
			"polar_proxy_wait_timeout_ms = 100; set local polar_xact_split_wait_lsn = '%d'; %s" %
			(FAR, READ))
		assert_timeout(answer.error)
		assert answer.ready.status == 'E'
		assert reader.run(READ).sqlstate == '25P02'
		reader.do('rollback')
		assert reader.do(READ).rows


@case()
def extended_protocol_wrapper(cluster, flavour):
	"""SETs as Parse/Bind/Execute under own names before the client's frames, one Sync."""
	node = cluster.replicas[0]
	with proxied(cluster.primary) as writer, proxied(node) as reader:

		def hidden(settings):
			frames = b''
			for i, (name, value) in enumerate(settings):
				own = 'own%d' % i
				frames += (wire.close('S', own) + wire.parse("set %s = '%s'" % (name, value), own) +
					wire.bind((), own, own) + wire.execute(own))
			return frames
		for i in range(20):
			lsn = write(writer, 'ext%d' % i)
			answer = reader.extended('select note from items where id = $1', [8], before=hidden((
				('polar_consistency_mode', 'strict'), ('polar_proxy_wait_timeout_ms', 5000),
				('polar_xact_split_wait_lsn', lsn))))
			assert answer.rows == [('ext%d' % i,)], answer.messages
		with Paused(node):
			answer = reader.extended(READ, before=hidden((('polar_consistency_mode', 'strict'),
				('polar_proxy_wait_timeout_ms', 200), ('polar_xact_split_wait_lsn', FAR))))
			assert_timeout(answer.error)
			assert 'D' not in answer.kinds and len(answer.errors) == 1


@case()
def prepared_generic_plans_wait_too(cluster, flavour):
	"""A plan that needs no analysis takes its snapshot after the wait."""
	with proxied(cluster.primary) as writer, proxied(cluster.replicas[0]) as reader:
		reader.do("set plan_cache_mode = force_generic_plan; "
			"prepare note(int) as select note from items where id = $1; execute note(8)")
		reader.wire.send(wire.parse('select note from items where id = $1', 'kept') + wire.sync())
		reader.receive()
		for i in range(10):
			lsn = write(writer, 'plan%d' % i)
			assert reader.do(wrapper(lsn, sql='execute note(8)')).rows == [('plan%d' % i,)]
			lsn = write(writer, 'bound%d' % i)
			reader.do(wrapper(lsn))
			answer = reader.exchange(wire.bind([8], 'kept') + wire.execute() + wire.sync())
			assert answer.rows == [('bound%d' % i,)]


@case()
def set_config_is_waited_for_by_the_next_query(cluster, flavour):
	"""A target that came without SET holds for the next statement, and for what it reads."""
	node = cluster.replicas[0]
	with proxied(cluster.primary) as writer, proxied(node) as reader:
		reader.do("set polar_consistency_mode = 'strict'; set polar_proxy_wait_timeout_ms = 5000; "
			"set plan_cache_mode = force_generic_plan")
		reader.wire.send(wire.parse(READ, 'kept') + wire.sync())
		reader.receive()
		for i in range(10):
			lsn = write(writer, 'config%d' % i)
			reader.do("select set_config('polar_xact_split_wait_lsn', '%d', false)" % lsn)
			assert reader.exchange(wire.bind([], 'kept') + wire.execute() + wire.sync()).value == (
				'config%d' % i)
			lsn = write(writer, 'simple%d' % i)
			reader.do("select set_config('polar_xact_split_wait_lsn', '%d', false)" % lsn)
			assert reader.value(READ) == 'simple%d' % i


@case()
def new_tables_are_known_after_the_wait(cluster, flavour):
	"""The wait comes before the statement's names are looked up."""
	with proxied(cluster.primary) as writer, proxied(cluster.replicas[0]) as reader:
		for i in range(10):
			lsn = writer.do('create table fresh%d as select 7 as a' % i).ready.lsn
			assert reader.do(wrapper(lsn, sql='select a from fresh%d' % i)).rows == [('7',)]
			writer.do('drop table fresh%d' % i)


@case()
def many_waiters_with_different_targets(cluster, flavour):
	"""Eight sessions waiting for different writes each get their own, in any order."""
	node = cluster.replicas[0]
	with proxied(cluster.primary) as writer:
		readers = [proxied(node) for _ in range(8)]
		for turn in range(15):
			with Paused(node):
				for number, reader in enumerate(readers):
					lsn = write(writer, 'turn%d.%d' % (turn, number), item=9 + number)
					reader.wire.send(wire.query(wrapper(
						lsn, sql='select note from items where id = %d' % (9 + number))))
			for number, reader in enumerate(readers):
				assert reader.receive().value == 'turn%d.%d' % (turn, number)
		for reader in readers:
			reader.wire.close()


@case()
def parallel_workers_do_not_wait(cluster, flavour):
	"""A best_effort timeout is not repeated by the workers of the same query."""
	node = cluster.replicas[0]
	with Paused(node), proxied(node) as reader:
		reader.do('set force_parallel_mode = on')
		answer = reader.do(wrapper(FAR, 'best_effort', 300, 'select count(*) from items'))
		assert len(answer.notices) == 1, answer.notices


@case()
def primary_has_what_it_has(cluster, flavour):
	"""On a primary a written target passes at once, one beyond its WAL fails at once."""
	with proxied(cluster.primary) as session:
		lsn = write(session, 'own')
		assert session.do(wrapper(lsn, timeout_ms=0, sql=READ)).rows == [('own',)]
		answer, seconds = elapsed(lambda: session.run(wrapper(FAR, timeout_ms=0, sql=READ)))
		assert_timeout(answer.error)
		assert seconds < 9, seconds
		answer = session.do(wrapper(FAR, 'best_effort', 0, READ))
		assert_timeout(answer.notices[0], 'WARNING')
		assert answer.rows == [('own',)]


@case('kernel')
def other_snapshots_wait_on_the_kernel(cluster, flavour):
	"""As on PolarDB: EXPLAIN, PREPARE, Parse and a cursor wait; BEGIN, SET and SHOW do not."""
	with Paused(cluster.replicas[0]), proxied(cluster.replicas[0]) as reader:
		for sql in (READ, 'explain ' + READ, 'prepare p as ' + READ, 'table items',
				'begin; declare c cursor for ' + READ):
			answer = reader.run(wrapper(FAR, timeout_ms=100, sql=sql))
			assert_timeout(answer.error)
			reader.run('rollback')
		reader.do(wrapper(FAR, timeout_ms=100))
		for sql in ('begin', 'savepoint a', 'set work_mem = 1024', 'show work_mem', 'rollback'):
			reader.do(sql)
		reader.wire.send(wire.parse(READ) + wire.sync())
		assert_timeout(reader.receive().error)


@case('kernel')
def wait_at_set_on_the_kernel(cluster, flavour):
	"""polar_proxy.wait_place = set gives the order of an unpatched server."""
	with Paused(cluster.replicas[0]), proxied(cluster.replicas[0]) as reader:
		reader.do('set polar_proxy.wait_place = set')
		answer = reader.run(wrapper(FAR, timeout_ms=100, sql=READ))
		assert_timeout(answer.error)
		assert answer.kinds == 'CCEZ', answer.kinds


@case('kernel')
def wait_message_before_each_frame(cluster, flavour):
	"""W before Parse, and before Bind of a prepared statement: no answer of its own, fresh rows."""
	with proxied(cluster.primary) as writer, proxied(cluster.replicas[0], wait=True) as reader:
		for i in range(50):
			lsn = write(writer, 'w%d' % i)
			answer = reader.extended(READ, before=wait_message(lsn, timeout_ms=5000))
			assert answer.kinds == '12TDCZ', answer.kinds
			assert answer.rows == [('w%d' % i,)]
		reader.wire.send(wait_message(lsn) + wire.parse(READ, 'kept') + wire.sync())
		assert reader.receive().kinds == '1Z'
		for i in range(50):
			lsn = write(writer, 'b%d' % i)
			answer = reader.exchange(wait_message(lsn, timeout_ms=5000) + wire.bind([], 'kept') +
				wire.describe('P') + wire.execute() + wire.sync())
			assert answer.kinds == '2TDCZ' and answer.rows == [('b%d' % i,)]


@case('kernel')
def wait_message_timeouts(cluster, flavour):
	"""strict: the error, then nothing until Sync; best_effort: WARNING and rows; no deadline: cancel."""
	with Paused(cluster.replicas[0]), proxied(cluster.replicas[0], wait=True) as reader:
		answer, seconds = elapsed(
			lambda: reader.extended(READ, before=wait_message(FAR, timeout_ms=300)))
		assert_timeout(answer.error)
		assert answer.kinds == 'EZ' and 0.29 < seconds < 9, (answer.kinds, seconds)
		assert answer.ready.status == 'I'
		answer = reader.extended(READ, before=wait_message(FAR, mode=0, timeout_ms=300))
		assert answer.kinds == 'N12TDCZ', answer.kinds
		assert_timeout(answer.notices[0], 'WARNING')
		cancel = later(0.3, reader.wire.cancel)
		answer = reader.extended(READ, before=wait_message(FAR))
		cancel.join()
		assert answer.sqlstate == '57014' and 'D' not in answer.error and answer.kinds == 'EZ'
		reader.do("set statement_timeout = '300ms'")
		answer = reader.extended(READ, before=wait_message(FAR))
		assert 'statement timeout' in answer.error['M'], answer.error
		assert reader.extended(READ).kinds == '12TDCZ'


@case('kernel')
def wait_message_is_checked(cluster, flavour):
	"""Bad version, mode, flags, target or length: 08P01, then skip to Sync; the session lives."""
	with proxied(cluster.replicas[0], wait=True) as reader:
		for bad in (wait_message(1, version=2), wait_message(1, mode=2), wait_message(1, flags=1),
				wait_message(0), wait_message(1, timeout_ms=2 ** 31), wire.frame('W'),
				wire.frame('W', bytes(15)), wire.frame('W', bytes(17))):
			answer = reader.extended(READ, before=bad)
			assert answer.kinds == 'EZ' and answer.sqlstate == '08P01', (bad, answer.messages)
		assert reader.extended(READ, before=wait_message(1)).kinds == '12TDCZ'
		reader.run('begin; select 1/0')
		assert reader.extended(READ, before=wait_message(FAR)).sqlstate == '25P02'
		reader.do('rollback')


@case()
def waits_work_after_a_crash(cluster, flavour):
	"""A standby whose backend was killed restarts by itself, with fresh shared memory, and wakes waiters."""
	with Cluster(cluster.flavour, replicas=1) as own:
		node = own.replicas[0]
		own.primary.sql("create table items as select 8 as id, 'old' as note")
		victim = plain(node)
		os.kill(victim.wire.pid, signal.SIGKILL)
		assert victim.wire.closed_by_peer()
		eventually(lambda: 'all server processes terminated' in node.log(), what='restart after the crash')
		node.wait_ready()
		with proxied(own.primary) as writer, proxied(node) as reader:
			for i in range(20):
				lsn = write(writer, 'crash%d' % i)
				assert reader.do(wrapper(lsn, timeout_ms=20000, sql=READ)).rows == [('crash%d' % i,)]


@case()
def promotion_while_waiting_fails_strict(cluster, flavour):
	"""A wait that a promotion interrupts is an error in strict mode, whatever is written afterwards."""
	with Cluster(cluster.flavour, replicas=1) as own:
		node = own.replicas[0]
		with proxied(own.primary) as writer, proxied(node) as reader:
			target = writer.do('select 1').ready.lsn + 2000
			reader.wire.send(wire.query(wrapper(target, timeout_ms=20000, sql='select 1')))
			time.sleep(0.3)
			node.promote()
			answer = reader.receive()
			assert_timeout(answer.error)
			assert 'promoted' in answer.error['M'], answer.error
			node.sql('create table t as select generate_series(1, 1000)')
			assert reader.do(wrapper(target, sql='select 1')).rows == [('1',)]
			assert node.scalar("select pg_current_wal_insert_lsn() >= '0/0'") == 't'
	with plain(cluster.primary) as session:
		assert session.do('select 1').rows
