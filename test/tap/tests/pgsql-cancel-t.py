#!/usr/bin/python3
"""Cancel requests: they reach the query they are meant for, and nobody else."""
import time
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal  # noqa: E402
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../fault'))
from fault_proxy import FaultProxy  # noqa: E402
from cluster import Cluster, Proxy, Wire, eventually, wire  # noqa: E402

CLUSTER = PROXY = None
_RUNNING = ("select count(*) from pg_stat_activity where query like '%%%s%%' and state = 'active'"
	" and pid <> pg_backend_pid()")


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 0)
	PROXY = Proxy(CLUSTER, pair=None, workers=4)


def teardown():
	PROXY.stop()
	CLUSTER.close()


def _start(session, mark):
	session.send(wire.query("select '%s', pg_sleep(30)" % mark))
	eventually(lambda: CLUSTER.primary.scalar(_RUNNING % mark) == '1', what='query running')


def _cancelled(session):
	messages = session.read_ready(10)
	errors = [wire.error_fields(b)['C'] for k, b in messages if k == 'E']
	equal(errors, ['57014'])


def test_cancel_stops_the_query_from_any_worker():
	# Each cancel comes over a new connection, which the kernel gives to any worker.
	for i in range(12):
		session = PROXY.session()
		_start(session, 'mark-%d-a' % i)
		session.cancel()
		_cancelled(session)
		equal(session.scalar('select 7'), '7')
		session.close()


def test_cancel_in_a_transaction_fails_it_only():
	session = PROXY.session()
	session.sql('begin')
	_start(session, 'mark-tx')
	session.cancel()
	_cancelled(session)
	equal(session.status, 'E')
	session.sql('rollback')
	equal(session.scalar('select 1'), '1')
	session.close()


def test_nothing_runs_before_the_cancel_has_settled():
	# PostgreSQL signals twice before it closes a cancel's connection, so a statement in between could
	# be hit. The relay passes the cancel on at once and tells its end late.
	relay = FaultProxy(CLUSTER.primary.address)
	with Proxy(CLUSTER, servers=[{'address': '127.0.0.1', 'port': relay.port, 'hostgroup': 10}],
			pair=None, wait_roles=False, name='relayed') as proxy, proxy.session() as session:
		for statement, keeps in (('begin', True), ('select 1', False)):
			session.sql(statement)
			_start(session, 'mark-settle')
			relay.delay_end_ms = 700
			with Wire(proxy.address) as canceller:
				began = time.monotonic()
				canceller.send(wire.cancel_request(session.pid, session.key))
				_cancelled(session)
				assert time.monotonic() - began < 0.6, 'the cancel itself was late'
				before = CLUSTER.primary.backends(user='app')
				session.sql('rollback')  # on the kept backend, or on another one
				waited = time.monotonic() - began
				assert (waited > 0.65) == keeps, (statement, waited)
				equal(CLUSTER.primary.backends(user='app'), before + (0 if keeps else 1))
				assert canceller.closed_by_peer()
				assert time.monotonic() - began > 0.65, 'the canceller was told too early'
			relay.delay_end_ms = 0
	relay.close()


def test_cancel_connection_stays_until_the_server_has_acted():
	with PROXY.session() as session:
		_start(session, 'mark-until')
		with Wire(PROXY.address) as canceller:
			canceller.send(wire.cancel_request(session.pid, session.key))
			# What else comes on it is not listened to.
			canceller.send(wire.query('select 1') + b'x' * 100000)
			assert canceller.closed_by_peer()
		_cancelled(session)
		equal(session.scalar('select 1'), '1')


def test_wrong_key_cancels_nothing():
	session = PROXY.session()
	_start(session, 'mark-key')
	with Wire(PROXY.address) as other:
		other.send(wire.cancel_request(session.pid, session.key ^ 1))
		assert other.closed_by_peer()
	with Wire(PROXY.address) as other:
		other.send(wire.cancel_request(session.pid + 1, session.key))
		assert other.closed_by_peer()
	time.sleep(0.3)
	equal(CLUSTER.primary.scalar(_RUNNING % 'mark-key'), '1')
	session.cancel()
	_cancelled(session)
	session.close()


def test_cancel_of_an_idle_session_hits_nobody():
	# The backend the session used last now serves another client.
	idle, busy = PROXY.session(), PROXY.session()
	equal(idle.scalar('select 1'), '1')
	for i in range(10):
		busy.send(wire.query('select pg_sleep(0.1), %d' % i))
		idle.cancel()
		kinds = [k for k, _ in busy.read_ready(10)]
		assert 'E' not in kinds, 'a stale cancel hit another client'
	equal(idle.scalar('select 2'), '2')
	idle.close()
	busy.close()


def test_many_cancels_beside_traffic():
	session, other = PROXY.session(), PROXY.session()
	for i in range(30):
		session.send(wire.query('select pg_sleep(0.01)'))
		session.cancel()
		messages = session.read_ready(10)
		assert messages[-1][0] == 'Z'
		equal(other.scalar('select %d' % i), str(i))
	session.close()
	other.close()


if __name__ == '__main__':
	runner.main(globals())
