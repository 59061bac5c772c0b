"""The proxies that the benchmark compares with: written down, started, stopped.

Each listens on loopback, logs no connections, and runs as the user the servers run as.
"""
import os
import shutil
import subprocess

from cluster import Closed, Timeout, WireError, connect, eventually, ports

_PATH = os.environ.get('PATH', '') + ':/usr/sbin:/usr/local/sbin'
_VERSION_ARGUMENT = {'pgbouncer': '--version', 'haproxy': '-v'}


def program(name):
	path = shutil.which(name, path=_PATH)
	if path is None:
		raise SystemExit('bench: %s is not installed; run scripts/setup' % name)
	return path


def version_of(name):
	run = subprocess.run([program(name), _VERSION_ARGUMENT[name]], stdout=subprocess.PIPE,
		stderr=subprocess.STDOUT, text=True, check=True)
	words = run.stdout.splitlines()[0].replace(' version', '').split()
	return ' '.join(words[:2])


class Peer:
	"""One running peer in the folder of a cluster, which also ends it when this process dies."""

	name = ''

	def __init__(self, cluster, databases):
		self.work = cluster.work
		self.port = ports.reserve()
		self.log_path = self.work.file(self.name + '.log')
		self.proc = self.work.spawn(self.name, self.prepare(cluster), self.log_path, as_server=True)
		try:
			for database in databases:
				eventually(lambda d=database: self._answers(d), 20, self.name + ' answers')
		except BaseException:
			self.stop()
			raise

	def prepare(self, cluster):
		"""Writes the configuration; the command line."""
		raise NotImplementedError

	@property
	def pid(self):
		return self.proc.pid

	def write(self, suffix, text):
		path = self.work.file(self.name + suffix)
		with open(path, 'w', encoding='utf-8') as f:
			f.write(text)
		return path

	def _answers(self, database):
		if self.proc.poll() is not None:
			with open(self.log_path, encoding='utf-8', errors='replace') as f:
				raise RuntimeError('%s ended:\n%s' % (self.name, f.read()[-2000:]))
		try:
			with connect(('127.0.0.1', self.port), 'app', 'app-secret', database) as session:
				return session.sql('select 1').scalar == '1'
		except (OSError, WireError, Closed, Timeout):
			return False

	def stop(self):
		if self.proc.poll() is None:
			self.proc.terminate()
			try:
				self.proc.wait(5)
			except subprocess.TimeoutExpired:
				self.proc.kill()
				self.proc.wait()
		self.work.forget(self.name)
		ports.release(self.port)


class PgBouncer(Peer):
	"""Database app pools transactions, app_session pools sessions; both may open a server
	connection for each client, as the others may."""

	name = 'pgbouncer'

	def __init__(self, cluster, clients):
		self.clients = clients
		super().__init__(cluster, ('app', 'app_session'))

	def prepare(self, cluster):
		users = self.write('.users', '"app" "app-secret"\n')
		server = 'host=127.0.0.1 port=%d dbname=app' % cluster.primary.port
		return [program('pgbouncer'), '-q', self.write('.ini', '''[databases]
app = %s pool_mode=transaction
app_session = %s pool_mode=session
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
default_pool_size = %d
max_client_conn = 1000
log_connections = 0
log_disconnections = 0
log_stats = 0
''' % (server, server, self.port, users, self.clients))]


class HaProxy(Peer):
	"""One frontend, one backend: the primary."""

	name = 'haproxy'

	def __init__(self, cluster, threads):
		self.threads = threads
		super().__init__(cluster, ('app',))

	def prepare(self, cluster):
		return [program('haproxy'), '-db', '-f', self.write('.cfg', '''global
	nbthread %d
	maxconn 1000
defaults
	mode tcp
	timeout connect 5s
	timeout client 1h
	timeout server 1h
listen primary
	bind 127.0.0.1:%d
	server primary 127.0.0.1:%d
''' % (self.threads, self.port, cluster.primary.port))]
