"""PostgreSQL test servers: one Node, or a Cluster of a primary and its hot standbys."""
import os
import signal
import subprocess
import time

from . import flavours, ports, template, wire
from .workspace import Workspace, alive, children, give_to_server, server_identity, wait_gone


def eventually(check, timeout=10.0, what='condition', pause=0.02):
	"""Polls check() until it answers something true; that answer is returned."""
	deadline = time.monotonic() + timeout
	while True:
		answer = check()
		if answer:
			return answer
		if time.monotonic() > deadline:
			raise AssertionError('%s not reached within %s s (last answer %r)' %
				(what, timeout, answer))
		time.sleep(pause)


def lsn_number(text):
	high, low = text.split('/')
	return (int(high, 16) << 32) + int(low, 16)


class Node:
	"""One server. start/stop/kill9 act on the process; the sql* methods use a superuser session."""

	def __init__(self, work, flavour, name, port=None):
		self.work = work
		self.flavour = flavour
		self.name = name
		self.port = port or ports.reserve()
		self.datadir = work.file(name)
		self.log_path = work.file(name + '.log')
		self.host = '127.0.0.1'
		self.proc = None
		self.paused = False

	@property
	def address(self):
		return (self.host, self.port)

	@property
	def socket_path(self):
		return self.work.file('.s.PGSQL.%d' % self.port)

	@property
	def pid(self):
		return self.work.noted(self.name)

	# -- process

	def start(self, wait=True):
		argv = [self.flavour.program('postgres'), '-D', self.datadir, '-k', self.work.path,
			'-p', str(self.port)]
		self.proc = self.work.spawn(self.name, argv, self.log_path, as_server=True)
		if wait:
			self.wait_ready()

	def running(self):
		if self.proc is not None:
			return self.proc.poll() is None
		return bool(self.pid) and alive(self.pid)

	def accepts(self):
		try:
			wire.connect(self.socket_path, 'postgres', database='postgres').close()
			return True
		except (OSError, wire.WireError, wire.Closed, wire.Timeout):
			return False

	def wait_ready(self, timeout=30.0):
		deadline = time.monotonic() + timeout
		while not self.accepts():
			if not self.running():
				raise RuntimeError('%s ended while starting:\n%s' % (self.name, self.log()[-3000:]))
			if time.monotonic() > deadline:
				raise RuntimeError('%s does not accept sessions:\n%s' %
					(self.name, self.log()[-3000:]))
			time.sleep(0.02)

	def stop(self, mode='fast', timeout=30.0):
		"""mode: smart, fast or immediate."""
		number = {'smart': signal.SIGTERM, 'fast': signal.SIGINT, 'immediate': signal.SIGQUIT}[mode]
		pid = self.pid
		if not pid or not self.running():
			return
		os.kill(pid, number)
		self._wait_ended(pid, timeout)

	def _wait_ended(self, pid, timeout):
		deadline = time.monotonic() + timeout
		while self.running():
			if time.monotonic() > deadline:
				raise RuntimeError('%s (pid %d) does not end' % (self.name, pid))
			time.sleep(0.01)

	def kill9(self):
		"""The server and all its processes at once, as if the machine had gone."""
		family = [self.pid] + children(self.pid)
		for pid in family:
			try:
				os.kill(pid, signal.SIGKILL)
			except OSError:
				pass
		self._wait_ended(self.pid, 10)
		wait_gone(family, 10)

	def restart(self, mode='fast'):
		self.stop(mode)
		self.start()

	def freeze(self):
		"""Stops all processes of the server (SIGSTOP): connections stay, nobody answers."""
		for pid in [self.pid] + children(self.pid):
			os.kill(pid, signal.SIGSTOP)

	def thaw(self):
		for pid in [self.pid] + children(self.pid):
			os.kill(pid, signal.SIGCONT)

	def log(self):
		try:
			with open(self.log_path, encoding='utf-8', errors='replace') as f:
				return f.read()
		except OSError:
			return ''

	# -- SQL as superuser, straight to the server

	def session(self, database='postgres', user='postgres', password=None, **params):
		"""A logged-in wire session over TCP, marked as the test's own."""
		params.setdefault('application_name', 'direct')
		return wire.connect(self.address, user, password, database, **params)

	def sql(self, statement, database='postgres'):
		session = wire.connect(self.socket_path, 'postgres', database=database, timeout=60.0,
			application_name='direct')
		with session:
			return session.sql(statement)

	def scalar(self, statement, database='postgres'):
		return self.sql(statement, database).scalar

	def in_recovery(self):
		return self.scalar('select pg_is_in_recovery()') == 't'

	def lsn(self):
		return lsn_number(self.scalar(
			'select case when pg_is_in_recovery() then pg_last_wal_replay_lsn()'
			' else pg_current_wal_lsn() end'))

	def set_conf(self, name, value):
		"""ALTER SYSTEM and reload; works on standbys as well."""
		if value is None:
			self.sql('alter system reset %s' % name)
		else:
			self.sql("alter system set %s = '%s'" % (name, value))
		self.sql('select pg_reload_conf()')

	# -- standby knobs

	def pause_replay(self):
		self.sql('select pg_wal_replay_pause()')
		eventually(lambda: self.scalar('select pg_get_wal_replay_pause_state()') == 'paused',
			what='replay paused on ' + self.name)
		self.paused = True

	def resume_replay(self):
		self.sql('select pg_wal_replay_resume()')
		self.paused = False

	def set_apply_delay(self, milliseconds):
		self.set_conf('recovery_min_apply_delay', '%dms' % milliseconds)

	def promote(self, timeout=30.0):
		self.sql('select pg_promote(true, %d)' % timeout)
		eventually(lambda: not self.in_recovery(), timeout, self.name + ' promoted')

	# -- sessions on the server

	def _filter(self, user, application, database):
		parts = ["backend_type = 'client backend'", 'pid <> pg_backend_pid()']
		for column, value in (('usename', user), ('application_name', application),
				('datname', database)):
			if value is not None:
				parts.append("%s = '%s'" % (column, value))
		return ' and '.join(parts)

	def backends(self, user=None, application=None, database=None):
		return int(self.scalar('select count(*) from pg_stat_activity where ' +
			self._filter(user, application, database)))

	def proxied_backends(self, users=('app', 'app2', 'app_md5', 'app_clear', 'app_trust',
			'monitor')):
		"""Sessions that came through a proxy: not the superuser's, not the test's own."""
		return int(self.scalar(
			"select count(*) from pg_stat_activity where backend_type = 'client backend'"
			" and application_name <> 'direct' and usename in (%s)" %
			', '.join("'%s'" % u for u in users)))

	def terminate_backends(self, user=None, application=None, database=None):
		return int(self.scalar(
			'select count(pg_terminate_backend(pid)) from pg_stat_activity where ' +
			self._filter(user, application, database)))


class Cluster:
	"""A primary and N streaming hot standbys. Use as a context manager, or call close().

	conf: postgresql.conf settings for all nodes. persistent: see Workspace.
	"""

	def __init__(self, flavour='stock', replicas=2, conf=None, directory=None, persistent=False,
			start=True):
		self.flavour = flavours.get(flavour) if isinstance(flavour, str) else flavour
		seed = template.get(self.flavour)
		self.work = Workspace(directory, persistent)
		self.conf = dict(conf or {})
		self.proxies = []  # every Proxy in front of it
		try:
			give_to_server(self.work.path)
			self.primary = self._make('primary', seed)
			self.replicas = []
			for i in range(replicas):
				self.replicas.append(self._make('replica%d' % (i + 1), seed, self.primary))
			if start:
				self._start_all()
		except BaseException:
			self.work.close()
			raise

	def __enter__(self):
		return self

	def __exit__(self, *unused):
		self.close()

	@property
	def nodes(self):
		return [self.primary] + self.replicas

	def node_at(self, port):
		"""The node that listens on a port (what inet_server_port() answers)."""
		for node in self.nodes:
			if node.port == int(port):
				return node
		raise KeyError(port)

	def _make(self, name, seed, upstream=None):
		node = Node(self.work, self.flavour, name)
		template.copy(seed, node.datadir)
		template.write_settings(node.datadir, self.conf)
		if upstream:
			self.follow(node, upstream)
		return node

	@staticmethod
	def follow(node, upstream):
		"""Makes a stopped node a standby of upstream."""
		template.write_settings(node.datadir, {'primary_conninfo':
			"'host=127.0.0.1 port=%d user=postgres application_name=%s'" %
			(upstream.port, node.name)})
		signal_file = os.path.join(node.datadir, 'standby.signal')
		with open(signal_file, 'w', encoding='ascii'):
			pass
		give_to_server(signal_file)

	def _start_all(self):
		for node in self.nodes:
			node.start(wait=False)
		for node in self.nodes:
			for attempt in range(4):
				try:
					node.wait_ready()
					break
				except RuntimeError:
					# Somebody took the port between the reservation and the start.
					if attempt == 3 or 'Address already in use' not in node.log():
						raise
					self._move(node)
		eventually(lambda: int(self.primary.scalar(
			"select count(*) from pg_stat_replication where state = 'streaming'")) >= len(
			self.replicas),
			30, 'all replicas streaming')

	def _move(self, node):
		ports.release(node.port)
		node.port = ports.reserve()
		if node is self.primary:
			for replica in self.replicas:
				self.follow(replica, node)
				if replica.running():
					os.kill(replica.pid, signal.SIGHUP)
		node.start(wait=False)

	def add_replica(self):
		"""One more standby, from a base backup of the running primary."""
		node = Node(self.work, self.flavour, 'replica%d' % (len(self.replicas) + 1))
		self.backup_into(node, self.primary)
		node.start()
		self.replicas.append(node)
		return node

	def backup_into(self, node, source):
		"""Replaces a stopped node's data by a base backup of source and makes it its standby."""
		subprocess.run(['rm', '-rf', node.datadir], check=True)
		subprocess.run(
			[self.flavour.program('pg_basebackup'), '-D', node.datadir, '-h', '127.0.0.1', '-p',
				str(source.port), '-U', 'postgres', '-c', 'fast', '-X', 'stream', '--no-sync'],
			check=True, cwd=self.work.path, stdout=subprocess.DEVNULL, **server_identity())
		self.follow(node, source)

	def wait_caught_up(self, timeout=20.0):
		"""Until every running, unpaused replica replayed what the primary has flushed."""
		target = lsn_number(self.primary.scalar('select pg_current_wal_flush_lsn()'))
		for replica in self.replicas:
			if replica.running() and not replica.paused:
				eventually(lambda r=replica: r.lsn() >= target, timeout, replica.name +
					' caught up')

	def describe(self):
		return {
			'directory': self.work.path,
			'flavour': self.flavour.name,
			'bin': os.path.join(self.flavour.prefix, 'bin'),
			'primary': self.primary.port,
			'replicas': [r.port for r in self.replicas],
			'pids': {n.name: n.pid for n in self.nodes},
		}

	def close(self):
		for node in self.nodes:
			if node.running():
				try:
					os.kill(node.pid, signal.SIGCONT)
					os.kill(node.pid, signal.SIGQUIT)
				except OSError:
					pass
		for node in self.nodes:
			if node.proc is not None:
				try:
					node.proc.wait(5)
				except subprocess.TimeoutExpired:
					pass
			ports.release(node.port)
		self.work.close()
