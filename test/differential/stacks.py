"""The servers and proxies the cases are played on: one process a stack, fed with case numbers.

  one    a server with a pool of one connection; each case with a plain and a TLS client
  two    the same with two connections, TLS clients
  split  a primary with two replicas, read/write split and global consistency (what one client has
         written the other sees, so that there is one right answer), plain clients
"""
import multiprocessing
import os
import signal
import traceback

import player
from cluster import Cluster, Proxy, wire

AHEAD = 8  # cases handed out before their answer is asked for: keeps the stacks busy
BASE = (
	'create table base (id int primary key, v text, n numeric(10,2) default 1.5);'
	"insert into base select i, 'v' || i, i * 1.25 from generate_series(1, 200) i;"
	'create table parent (id int primary key);'
	'create table child (id int primary key, pid int constraint child_parent references parent,'
	' u int constraint child_u unique, c int constraint child_c check (c > 0), nn text not null);'
	'insert into parent values (1), (2);'
	'grant all on base, parent, child to app;'
	'create role diff_reader; grant diff_reader to app;'
	'grant select on base to diff_reader; grant all on schema public to diff_reader;')


class Stack:
	"""One cluster with its proxy, inside the process that plays the cases on it."""

	def __init__(self, name):
		self.name = name
		self.backends = {'one': 1, 'two': 2, 'split': 100}[name]
		self.tls = {'one': (False, True), 'two': (True,), 'split': (False,)}[name]
		self.cluster = Cluster('kernel' if name == 'split' else 'stock', 2 if name == 'split' else 0)
		servers = None
		if name != 'split':
			servers = [{'address': '127.0.0.1', 'port': self.cluster.primary.port, 'hostgroup': 10,
				'max_connections': self.backends}]
		self.proxy = Proxy(self.cluster, servers=servers, pair='auto' if name == 'split' else None,
			consistency='global_lsn')
		self.cluster.primary.sql(BASE, 'app')
		self.root = wire.connect(self.cluster.primary.socket_path, 'postgres', database='app',
			timeout=30.0, application_name='direct')
		self.owner = self._direct()
		self.replicas = [wire.connect(r.socket_path, 'postgres', database='postgres', timeout=30.0,
			application_name='direct') for r in self.cluster.replicas]

	def _direct(self, **parameters):
		"""Straight to the primary, on its Unix socket, where no password is asked for."""
		parameters = dict({'user': 'app', 'database': 'app', 'application_name': ''}, **parameters)
		return wire.connect(self.cluster.primary.socket_path, timeout=20.0, **parameters)

	def _through(self, tls, **parameters):
		parameters = dict({'user': 'app', 'database': 'app', 'application_name': ''}, **parameters)
		password = {'app2': 'app2-secret'}.get(parameters['user'], 'app-secret')
		return wire.connect(self.proxy.address, password=password, timeout=20.0, tls=tls,
			**parameters)

	def _prepare(self, case):
		"""Objects of the case before are dropped: they are all in the schema named as the user."""
		self.root.sql('set client_min_messages = error; drop schema if exists app cascade;'
			'create schema app authorization app')
		for statement in case.setup:
			self.owner.sql(statement)
		if not self.replicas:
			return
		target = self.root.scalar('select pg_current_wal_flush_lsn()')
		for replica in self.replicas:
			while replica.scalar("select pg_last_wal_replay_lsn() >= '%s'" % target) != 't':
				pass

	def _play(self, case, connect):
		self._prepare(case)
		try:
			return player.play(case, connect)
		finally:
			for statement in case.cleanup:
				self.root.sql(statement)

	def both(self, case):
		"""The two transcripts, with the stack's first kind of client."""
		return (self._play(case, self._direct),
			self._play(case, lambda **p: self._through(self.tls[0], **p)))

	def run(self, case):
		"""The trouble as text, or None."""
		if not case.runs_on(self.name, self.backends):
			return None
		wanted = self._play(case, self._direct)
		for tls in self.tls:
			got = self._play(case, lambda t=tls, **p: self._through(t, **p))
			what = '%s on %s, %s' % (case.place, self.name, 'TLS client' if tls else 'plain client')
			trouble = player.compare(case, self.name, got, wanted, what)
			if trouble:
				return trouble
		return None

	def close(self):
		try:
			for session in [self.root, self.owner] + self.replicas:
				session.close()
			self.proxy.stop()
		finally:
			self.cluster.close()


def _serve(name, cases, pipe):
	"""Body of a stack's process: case numbers come in, troubles go out; None ends it."""
	signal.signal(signal.SIGINT, signal.SIG_IGN)
	signal.signal(signal.SIGTERM, signal.SIG_DFL)
	signal.alarm(0)
	stack = None
	try:
		stack = Stack(name)
		pipe.send('ready')
		for number in iter(pipe.recv, None):
			try:
				trouble = stack.run(cases[number])
			except Exception:  # pylint: disable=broad-except
				trouble = '%s on %s\n%s' % (cases[number].place, name, traceback.format_exc())
			pipe.send((number, trouble))
		stack.close()
		pipe.send('ended')
	except BaseException:  # pylint: disable=broad-except
		pipe.send(traceback.format_exc())
	finally:
		pipe.close()
		os._exit(0)


class Worker:
	def __init__(self, name, cases):
		self.name = name
		self.answers = {}
		self.asked = set()
		self.total = len(cases)
		self.pipe, other = multiprocessing.Pipe()
		self.process = multiprocessing.get_context('fork').Process(
			target=_serve, args=(name, cases, other), daemon=True)
		self.process.start()
		other.close()

	def _receive(self):
		try:
			return self.pipe.recv()
		except EOFError:
			raise AssertionError('the process of stack %s has died' % self.name) from None

	def wait_ready(self):
		answer = self._receive()
		assert answer == 'ready', answer

	def ask(self, number):
		for n in range(number, min(number + AHEAD, self.total)):
			if n not in self.asked:
				self.asked.add(n)
				self.pipe.send(n)

	def answer(self, number):
		while number not in self.answers:
			got = self._receive()
			assert isinstance(got, tuple), got
			self.answers[got[0]] = got[1]
		return self.answers[number]

	def close(self):
		self.pipe.send(None)
		got = self._receive()
		while isinstance(got, tuple):
			got = self._receive()
		self.process.join(10)
		assert got == 'ended', got
