#!/usr/bin/python3
"""Sessions with checkable writes while replicas lag, stop and go on: no stale read, no read that
goes back in time, no lost or doubled write - and the replicas must have served most reads.
"""
import random
import threading
import time
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, in_threads, load_seconds  # noqa: E402
from cluster import Cluster, Proxy  # noqa: E402

TIMEOUT = 240
SECONDS = load_seconds(8)
CLUSTER = PROXY = None


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('kernel', 2)
	CLUSTER.primary.sql('create table own (k int primary key, v int not null); '
		'create table common (k int primary key, v int not null); '
		'insert into common values (1, 0); '
		'create table log (k int, v int); grant all on own, common, log to app', 'app')
	CLUSTER.wait_caught_up()
	PROXY = Proxy(CLUSTER, workers=2)


def teardown():
	PROXY.stop()
	CLUSTER.close()


class Session:
	"""One client: its own row, whose value only it changes, and a row that all change."""

	def __init__(self, key, end, extended=False):
		self.key = key
		self.end = end
		self.value = 0
		self.highest_common = 0
		self.rows = 0
		self.on_replicas = 0
		self.reads = 0
		self.extended = extended
		self.chance = random.Random(key)
		self.wire = PROXY.session()

	def ask(self, text):
		if self.extended:
			return self.wire.extended(text, timeout=30)
		return self.wire.sql(text, timeout=30)

	def read_own(self):
		row = self.ask('select v, inet_server_port() from own where k = %d' % self.key).rows
		assert row, 'session %d: own row is missing' % self.key
		port = int(row[0][1])
		equal(int(row[0][0]), self.value, 'session %d read its own row on %s' % (
			self.key, CLUSTER.node_at(port).name))
		self._count(port)

	def read_common(self):
		value, port = self.ask('select v, inet_server_port() from common where k = 1').rows[0]
		assert int(
			value) >= self.highest_common, 'session %d: %s after %d on %s: time ran backwards' % (
			self.key, value, self.highest_common, CLUSTER.node_at(port).name)
		self.highest_common = int(value)
		self._count(int(port))

	def read_log(self):
		value, port = self.ask('select count(*), inet_server_port() from log where k = %d' %
			self.key).rows[0]
		equal(int(value), self.rows, 'session %d counted its rows on %s' % (
			self.key, CLUSTER.node_at(port).name))
		self._count(int(port))

	def _count(self, port):
		self.reads += 1
		self.on_replicas += port != CLUSTER.primary.port

	def write(self):
		kind = self.chance.randrange(4)
		if kind == 0:
			self.ask('update own set v = v + 1 where k = %d' % self.key)
			self.value += 1
		elif kind == 1:
			self.ask('insert into log values (%d, %d)' % (self.key, self.rows))
			self.rows += 1
		elif kind == 2:
			self._transaction()
		else:
			value = int(self.ask('update common set v = v + 1 where k = 1 returning v').rows[0][0])
			assert value > self.highest_common, 'an update of the common row went backwards'
			self.highest_common = value

	def _transaction(self):
		self.ask('begin')
		self.ask('update own set v = v + 1 where k = %d' % self.key)
		inside = int(self.ask('select v from own where k = %d' % self.key).scalar)
		equal(inside, self.value + 1, 'session %d inside its transaction' % self.key)
		if self.chance.random() < 0.3:
			self.ask('rollback')
		else:
			self.ask('insert into log values (%d, %d)' % (self.key, self.rows))
			self.ask('commit')
			self.value += 1
			self.rows += 1

	def run(self):
		self.ask('insert into own values (%d, 0)' % self.key)
		while time.monotonic() < self.end:
			self.write()
			for _ in range(self.chance.randrange(1, 8)):
				self.chance.choice([self.read_own, self.read_common, self.read_log])()
			if self.chance.random() < 0.02:
				self.wire.close()
				self.wire = PROXY.session()
				# A new session knows nothing of the old one's position: it starts on the primary.
				self.highest_common = 0
				self.value = int(self.ask('/* route=primary */ select v from own where k = %d' %
					self.key).scalar)
		self.wire.close()


def _disturb(stop, chance):
	"""Pauses and resumes the replay of one replica at random."""
	while not stop.is_set():
		replica = CLUSTER.replicas[0]
		stop.wait(chance.uniform(0.05, 0.4))
		replica.pause_replay()
		stop.wait(chance.uniform(0.05, 0.6))
		replica.resume_replay()


def _run(disturb, extended=False, minimum=0.5, first_key=1):
	end = time.monotonic() + SECONDS
	sessions = [Session(first_key + i, end, extended) for i in range(8)]
	stop = threading.Event()
	troublemaker = threading.Thread(target=disturb, args=(stop, random.Random(5)), daemon=True)
	troublemaker.start()
	try:
		in_threads([s.run for s in sessions], SECONDS + 60)
	finally:
		stop.set()
		troublemaker.join(30)
	reads = sum(s.reads for s in sessions)
	share = sum(s.on_replicas for s in sessions) / reads
	print('%d reads, %.1f %% of them on replicas, %d writes of own rows' % (
		reads, 100 * share, sum(s.value for s in sessions)))
	for session in sessions:
		equal(int(CLUSTER.primary.scalar('select v from own where k = %d' % session.key, 'app')),
			session.value, 'value of session %d on the primary' % session.key)
		equal(int(CLUSTER.primary.scalar('select count(*) from log where k = %d' % session.key,
			'app')),
			session.rows, 'rows of session %d on the primary' % session.key)
	assert reads > 50 * SECONDS, 'only %d reads' % reads
	assert share > minimum, 'replicas served only %.1f %% of %d reads' % (100 * share, reads)


def test_replay_of_one_replica_pauses_at_random():
	_run(_disturb)


def test_replay_pauses_extended_protocol():
	_run(_disturb, extended=True, minimum=0.9, first_key=101)


def test_both_replicas_apply_late():
	for replica in CLUSTER.replicas:
		replica.set_apply_delay(30)
	try:
		_run(lambda stop, _: stop.wait(), minimum=0.2, first_key=201)
	finally:
		for replica in CLUSTER.replicas:
			replica.set_apply_delay(0)


def test_replica_backends_are_killed_at_random():
	def disturb(stop, chance):
		while not stop.is_set():
			stop.wait(chance.uniform(0.2, 0.6))
			chance.choice(CLUSTER.replicas).terminate_backends(user='app')
	_run(disturb, first_key=301)


if __name__ == '__main__':
	runner.main(globals())
