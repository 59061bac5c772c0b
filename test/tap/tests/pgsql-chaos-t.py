#!/usr/bin/python3
"""Servers, clients and wires die at random moments under load. The proxy must go on: no crash, no
session that hangs, no acknowledged write lost, no backend leaked (counted on the servers).
"""
import random
import threading
import time
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, in_threads, load_seconds  # noqa: E402
from cluster import Closed, Cluster, Proxy, Timeout, WireError, eventually, wire  # noqa: E402
from fault_proxy import FaultProxy  # noqa: E402

TIMEOUT = 240
SECONDS = load_seconds(12)


class Client:
	"""Writes numbered rows and reads; after each trouble it connects again."""

	def __init__(self, proxy, key, end):
		self.proxy = proxy
		self.key = key
		self.end = end
		self.chance = random.Random(key)
		self.sure = set()
		self.unsure = set()
		self.reads = 0
		self.troubles = 0
		self.wire = None

	def run(self):
		number = 0
		while time.monotonic() < self.end:
			number += 1
			try:
				if self.wire is None:
					self.wire = self.proxy.session(timeout=20)
				self._step(number)
			except (WireError, Closed, OSError):
				# A Timeout is none of these: an answer that never comes ends the test.
				self.troubles += 1
				if self.wire is not None:
					self.wire.sock.close()
					self.wire = None
				time.sleep(0.05)
		if self.wire is not None:
			self.wire.close()

	def _step(self, number):
		kind = self.chance.randrange(10)
		if kind < 4:
			self.reads += 1
			self.wire.sql('select count(*) from chaos where k = %d' % self.key)
		elif kind < 5:
			self.wire.sql("select repeat('x', 1000), i from generate_series(1, 300) i")
		elif kind < 9:
			self.unsure.add(number)
			if kind % 2:
				self.wire.sql('insert into chaos values (%d, %d)' % (self.key, number))
			else:
				self.wire.sql('begin')
				self.wire.sql('insert into chaos values (%d, %d)' % (self.key, number))
				self.wire.sql('commit')
			self.unsure.discard(number)
			self.sure.add(number)
		else:
			# A client that vanishes in the middle.
			self.wire.send(wire.query("begin; select pg_sleep(0.05), repeat('y', 100000)"))
			self.wire.abort()
			self.wire = None


def _load(cluster, proxy, disturb, clients=8):
	cluster.primary.sql('create table if not exists chaos (k int, n int); truncate chaos; '
		'grant all on chaos to app', 'app')
	cluster.wait_caught_up()
	end = time.monotonic() + SECONDS
	users = [Client(proxy, k, end) for k in range(1, clients + 1)]
	stop = threading.Event()
	trouble = []

	def act():
		try:
			disturb(stop, random.Random(9))
		except BaseException as e:  # pylint: disable=broad-except
			trouble.append(e)

	agent = threading.Thread(target=act, daemon=True)
	agent.start()
	try:
		in_threads([u.run for u in users], SECONDS + 60)
	finally:
		stop.set()
		agent.join(60)
	if trouble:
		raise trouble[0]
	_check(cluster, proxy, users)


def _check(cluster, proxy, users):
	for node in cluster.nodes:
		if not node.running():
			node.start()
	assert proxy.running(), proxy.log()[-4000:]
	_works(proxy)
	eventually(lambda: len(proxy.admin('select * from stats_pgsql_processlist').rows) == 0, 10,
		'no client session left in the proxy')
	sure = sum(len(u.sure) for u in users)
	print('%d sure writes, %d unsure, %d reads, %d troubles' %
		(sure, sum(len(u.unsure) for u in users),
		sum(u.reads for u in users), sum(u.troubles for u in users)))
	assert sure > 2 * SECONDS, 'hardly anything was done'
	for user in users:
		rows = [int(r[0]) for r in cluster.primary.sql(
			'select n from chaos where k = %d' % user.key, 'app').rows]
		equal(len(rows), len(set(rows)), 'doubled writes of client %d' % user.key)
		assert user.sure <= set(rows), 'lost writes of client %d: %s' % (
			user.key, sorted(user.sure - set(rows))[:10])
		assert set(rows) <= user.sure | user.unsure, 'rows nobody wrote'
	_no_leak(cluster, proxy)


def _works(proxy):
	def once():
		try:
			with proxy.session(timeout=5) as session:
				session.sql('insert into chaos values (0, 0)')
				return session.scalar('select 42') == '42'
		except (WireError, Closed, Timeout, OSError):
			return False
	eventually(once, 30, 'writes and reads after the chaos', 0.2)


def _no_leak(cluster, proxy):
	"""What the servers count is what the proxy says it holds, and none is busy or in a
	transaction."""
	for node in cluster.nodes:
		def agree(node=node):
			held = int(proxy.admin_scalar('select coalesce(sum(ConnUsed + ConnFree), 0)'
				' from stats_pgsql_connection_pool where srv_port = %d' % _port_seen(proxy, node)))
			return node.backends(user='app') <= held
		eventually(agree, 20, 'no more sessions on %s than the proxy holds' % node.name, 0.2)
		eventually(
			lambda n=node: n.scalar("select count(*) from pg_stat_activity where usename = 'app'"
			" and state <> 'idle'") == '0', 10, 'no session of app busy on ' + node.name)


def _port_seen(proxy, node):
	"""The port by which the proxy knows a node: it may be a relay's."""
	return getattr(proxy, 'relay_ports', {}).get(node.name, node.port)


def test_replicas_die_and_return():
	with Cluster('kernel', 2) as cluster, Proxy(cluster) as proxy:
		def disturb(stop, chance):
			while not stop.is_set():
				victim = chance.choice(cluster.replicas)
				stop.wait(chance.uniform(0.3, 1.0))
				victim.kill9()
				stop.wait(chance.uniform(0.3, 1.5))
				victim.start()
		_load(cluster, proxy, disturb)


def test_primary_dies_and_returns():
	with Cluster('kernel', 2) as cluster, Proxy(cluster) as proxy:
		def disturb(stop, chance):
			while not stop.is_set():
				stop.wait(chance.uniform(0.8, 2.0))
				cluster.primary.kill9()
				stop.wait(chance.uniform(0.3, 1.0))
				cluster.primary.start()
				stop.wait(1.0)
		_load(cluster, proxy, disturb)


def test_backends_are_terminated_and_servers_freeze():
	with Cluster('kernel', 2) as cluster, Proxy(cluster) as proxy:
		def disturb(stop, chance):
			while not stop.is_set():
				stop.wait(chance.uniform(0.1, 0.5))
				node = chance.choice(cluster.nodes)
				if chance.random() < 0.7 or node is cluster.primary:
					node.terminate_backends(user='app')
				else:
					node.freeze()
					stop.wait(chance.uniform(0.2, 1.0))
					node.thaw()
		_load(cluster, proxy, disturb)


def test_wires_to_the_servers_are_cut():
	with Cluster('kernel', 2) as cluster:
		relays = {n.name: FaultProxy(n.address) for n in cluster.nodes}
		servers = [{'address': '127.0.0.1', 'port': relays[n.name].port,
			'hostgroup': 10 if n is cluster.primary else 20} for n in cluster.nodes]
		proxy = Proxy(cluster, servers=servers, wait_roles=False)
		proxy.relay_ports = {name: relay.port for name, relay in relays.items()}
		with proxy:
			eventually(lambda: len(proxy.online()) >= 3, 20, 'servers online')

			def disturb(stop, chance):
				while not stop.is_set():
					stop.wait(chance.uniform(0.1, 0.6))
					relay = chance.choice(list(relays.values()))
					kind = chance.randrange(4)
					if kind == 0:
						relay.cut()
					elif kind == 1:
						relay.cut_after(to_client=chance.randrange(1, 3000))
					elif kind == 2:
						relay.refuse = True
						relay.cut()
						stop.wait(chance.uniform(0.1, 0.5))
						relay.refuse = False
					else:
						relay.delay_ms = 30
						stop.wait(0.5)
						relay.delay_ms = 0
			_load(cluster, proxy, disturb)
		for relay in relays.values():
			relay.close()


def test_shutdown_under_load_is_clean():
	with Cluster('kernel', 1) as cluster:
		cluster.primary.sql('create table chaos (k int, n int); grant all on chaos to app', 'app')
		cluster.wait_caught_up()
		proxy = Proxy(cluster)
		users = [Client(proxy, k, time.monotonic() + 2.5) for k in range(1, 9)]
		threads = [threading.Thread(target=u.run, daemon=True) for u in users]
		for thread in threads:
			thread.start()
		time.sleep(1.5)
		proxy.stop()
		for thread in threads:
			thread.join(30)
		assert not any(t.is_alive() for t in threads)
		assert sum(len(u.sure) for u in users) > 5
		proxy.release()


if __name__ == '__main__':
	runner.main(globals())
