#!/usr/bin/python3
"""The test clusters themselves: replication, every knob, and that nothing is left behind."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from cluster import Cluster, WireError, connect, eventually, wire  # noqa: E402
from cluster.flavours import ROOT  # noqa: E402
from cluster.workspace import alive  # noqa: E402
from fault_proxy import FaultProxy  # noqa: E402

CLUSTER = None


def setup():
	global CLUSTER
	CLUSTER = Cluster('stock', 2)


def teardown():
	pids = [n.pid for n in CLUSTER.nodes]
	path = CLUSTER.work.path
	CLUSTER.close()
	assert not any(alive(p) for p in pids)
	assert not os.path.exists(path)


def test_replicas_stream_and_are_read_only():
	CLUSTER.primary.sql('create table t as select generate_series(1, 100) as i', 'app')
	CLUSTER.wait_caught_up()
	for replica in CLUSTER.replicas:
		assert replica.in_recovery()
		assert replica.scalar('select count(*) from t', 'app') == '100'
		try:
			replica.sql('insert into t values (1)', 'app')
			raise AssertionError('a replica took a write')
		except WireError as e:
			assert e.sqlstate == '25006', e


def test_every_password_method_works_and_wrong_ones_do_not():
	address = CLUSTER.primary.address
	for user in ('app', 'app_md5', 'app_clear'):
		connect(address, user, 'app-secret', 'app').close()
		try:
			connect(address, user, 'wrong', 'app')
			raise AssertionError('%s got in with a wrong password' % user)
		except WireError as e:
			assert e.sqlstate == '28P01', e
	connect(address, 'monitor', 'monitor', 'postgres').close()


def test_paused_replica_shows_old_rows_until_resumed():
	held, free = CLUSTER.replicas
	CLUSTER.primary.sql('create table p (i int)', 'app')
	CLUSTER.wait_caught_up()
	held.pause_replay()
	CLUSTER.primary.sql('insert into p values (1)', 'app')
	CLUSTER.wait_caught_up()
	assert free.scalar('select count(*) from p', 'app') == '1'
	assert held.scalar('select count(*) from p', 'app') == '0'
	held.resume_replay()
	eventually(lambda: held.scalar('select count(*) from p', 'app') == '1',
		what='row on the replica')


def test_apply_delay_holds_a_commit_back():
	replica = CLUSTER.replicas[0]
	replica.set_apply_delay(700)
	CLUSTER.primary.sql('create table d (i int)', 'app')
	start = time.monotonic()
	eventually(lambda: replica.scalar("select to_regclass('d')", 'app'), what='the table')
	assert time.monotonic() - start > 0.4
	replica.set_apply_delay(0)


def test_killed_replica_comes_back():
	replica = CLUSTER.replicas[1]
	replica.kill9()
	assert not replica.accepts()
	CLUSTER.primary.sql('create table k (i int)', 'app')
	replica.start()
	CLUSTER.wait_caught_up()
	assert replica.scalar("select to_regclass('k')", 'app') == 'k'


def test_frozen_server_answers_after_thaw():
	replica = CLUSTER.replicas[0]
	session = replica.session()
	replica.freeze()
	session.send(wire.query('select 1'))
	try:
		session.read_ready(0.3)
		raise AssertionError('a frozen server answered')
	except wire.Timeout:
		pass
	replica.thaw()
	session.read_ready(5)
	session.close()


def test_backends_are_counted_and_terminated():
	sessions = [connect(CLUSTER.primary.address, 'app', 'app-secret', 'app', application_name='n1')
		for _ in range(3)]
	assert CLUSTER.primary.backends(user='app', application='n1') == 3
	assert CLUSTER.primary.proxied_backends() == 3
	assert CLUSTER.primary.terminate_backends(application='n1') == 3
	eventually(lambda: CLUSTER.primary.backends(application='n1') == 0, what='no backend')
	assert all(s.closed_by_peer() for s in sessions)


def test_promotion_and_a_new_standby_of_the_new_primary():
	with Cluster('stock', 1) as other:
		other.primary.kill9()
		other.replicas[0].promote()
		other.replicas[0].sql('create table after_promotion (i int)')
		other.backup_into(other.primary, other.replicas[0])
		other.primary.start()
		assert other.primary.in_recovery()
		eventually(lambda: other.primary.scalar("select to_regclass('after_promotion')"),
			what='the table on the rebuilt node')


def test_fault_proxy_relays_delays_cuts_and_half_closes():
	relay = FaultProxy(CLUSTER.primary.address)
	address = ('127.0.0.1', relay.port)
	session = connect(address, 'app', 'app-secret', 'app')
	assert session.scalar('select length(repeat($$x$$, 3000000))') == '3000000'
	assert len(session.scalar('select repeat($$x$$, 3000000)')) == 3000000
	relay.delay_ms = 200
	start = time.monotonic()
	session.sql('select 1')
	assert time.monotonic() - start >= 0.4
	relay.delay_ms = 0
	relay.rate_bytes = 100000
	start = time.monotonic()
	session.sql('select repeat($$x$$, 50000)')
	assert 0.3 < time.monotonic() - start < 5
	relay.rate_bytes = 0
	relay.cut_after(to_client=20)
	try:
		session.sql('select repeat($$x$$, 100)')
		raise AssertionError('answer beyond the cut')
	except wire.Closed:
		pass
	session = connect(address, 'app', 'app-secret', 'app')
	relay.half_close()
	assert session.closed_by_peer(2)
	session.close()
	session = connect(address, 'app', 'app-secret', 'app')
	relay.cut()
	assert session.closed_by_peer(2)
	relay.refuse = True
	try:
		connect(address, 'app', 'app-secret', 'app')
		raise AssertionError('connected although refused')
	except (wire.Closed, OSError):
		pass
	relay.close()


def test_killed_test_program_leaves_nothing():
	code = ('import sys; sys.path.insert(0, %r)\n'
		'from cluster import Cluster\n'
		'c = Cluster("stock", 1)\n'
		'print(c.work.path, *[n.pid for n in c.nodes], flush=True)\n'
		'import time; time.sleep(60)\n') % os.path.join(ROOT, 'test')
	child = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE, text=True)
	path, *pids = child.stdout.readline().split()
	assert os.path.isdir(path) and all(alive(int(p)) for p in pids)
	child.kill()
	child.wait()
	eventually(lambda: not os.path.exists(path), what='folder removed')
	eventually(lambda: not any(alive(int(p)) for p in pids), what='servers gone')


if __name__ == '__main__':
	runner.main(globals())
