"""The proxy under test: writes its configuration file, starts it, talks to its admin port, stops
it."""
import os
import re
import signal
import time

from . import ports, wire
from .flavours import ROOT
from .server import eventually
from .workspace import Workspace

WRITER, READER = 10, 20

# Text that must not be in the log of a healthy run.
_FAULT_REPORT = re.compile(
	r'AddressSanitizer|LeakSanitizer|ThreadSanitizer|runtime error:|UndefinedBehavior|'
	r'PROXY_BUG|PROXY_CHECK|PROXY_DCHECK|Assertion .* failed|std::terminate|terminate called')


def binary():
	return os.environ.get('POLAR_PROXY_BIN') or os.path.join(ROOT, 'src', 'polar-proxy')


def is_instrumented():
	"""A sanitizer's build: several times slower, and freed memory stays for a while."""
	return '/build-asan/' in binary() or '/build-tsan/' in binary()


def _value(value):
	if isinstance(value, bool):
		return 'true' if value else 'false'
	if isinstance(value, int):
		return str(value)
	return '"%s"' % str(value).replace('\\', '\\\\').replace('"', '\\"')


def render(config):
	"""A ProxySQL configuration file: dicts become groups, lists of dicts become lists of groups."""
	lines = []
	for key, value in config.items():
		if isinstance(value, dict):
			lines.append('%s =\n{' % key)
			lines += ['\t%s = %s' % (k, _value(v)) for k, v in value.items()]
			lines.append('}')
		elif isinstance(value, list):
			rows = []
			for row in value:
				rows.append('\t{ ' + '; '.join('%s = %s' % (k, _value(v)) for k, v in row.items()) +
					' }')
			lines.append('%s =\n(\n%s\n)' % (key, ',\n'.join(rows)))
		else:
			lines.append('%s = %s' % (key, _value(value)))
	return '\n'.join(lines) + '\n'


DEFAULT_USERS = [
	{'username': 'app', 'password': 'app-secret', 'default_hostgroup': WRITER},
	{'username': 'app2', 'password': 'app2-secret', 'default_hostgroup': WRITER},
	{'username': 'app_md5', 'password': 'app-secret', 'default_hostgroup': WRITER},
	{'username': 'app_clear', 'password': 'app-secret', 'default_hostgroup': WRITER},
]


class Proxy:
	"""One running proxy in front of a Cluster (or of any (host, port) pairs given as servers).

	variables, admin_variables: without their prefix. rules, users, servers: rows of the tables.
	pair: the pgsql_replication_hostgroups row, None for no row; by default it fits the flavour, with
	consistency as its mode where servers report positions.
	"""

	def __init__(self, cluster=None, servers=None, users=None, rules=None, pair='auto',
			variables=None, admin_variables=None, workers=2, start=True, wait_roles=True,
			directory=None, persistent=False, prefer_ports=(), name='proxy', extra=None,
			consistency='session_lsn'):
		self.cluster = cluster
		self.name = name
		self.work = cluster.work if cluster and not directory else Workspace(directory, persistent)
		self.owns_work = not (cluster and not directory)
		self.port = ports.reserve(prefer_ports[:1])
		self.admin_port = ports.reserve(prefer_ports[1:2])
		self.datadir = self.work.file(name + '.d')
		self.cnf = self.work.file(name + '.cnf')
		self.log_path = self.work.file(name + '.log')
		self.host = '127.0.0.1'
		self.proc = None
		self.wait_roles = wait_roles and cluster is not None
		self.workers = workers
		self.given_variables = dict(variables or {})
		self.given_admin_variables = dict(admin_variables or {})
		self.users = DEFAULT_USERS if users is None else users
		self.rules = rules or []
		self.servers = self._servers() if servers is None else servers
		self.consistency = consistency
		self.pair = self._pair() if pair == 'auto' else pair
		self.extra = dict(extra or {})
		os.makedirs(self.datadir, exist_ok=True)
		if cluster is not None:
			cluster.proxies.append(self)
		if start:
			self.start()

	def __enter__(self):
		return self

	def __exit__(self, kind, *unused):
		if kind is None:
			self.stop()
		else:
			self.kill()
			print('---- end of the proxy log\n%s\n----' % self.log()[-4000:])
		self.release()

	def _servers(self):
		if self.cluster is None:
			return []
		rows = [{'address': '127.0.0.1', 'port': self.cluster.primary.port, 'hostgroup': WRITER}]
		for replica in self.cluster.replicas:
			rows.append({'address': '127.0.0.1', 'port': replica.port, 'hostgroup': READER})
		return rows

	def _pair(self):
		row = {'writer_hostgroup': WRITER, 'reader_hostgroup': READER}
		if self.cluster is not None and self.cluster.flavour.name == 'kernel':
			row.update(check_type='polardb', txn_split_enabled=0, consistency_mode=self.consistency,
				proxy_protocol='v15')
		else:
			row.update(check_type='read_only', consistency_mode='eventual')
		return row

	def config(self):
		variables = {
			'interfaces': '127.0.0.1:%d' % self.port,
			'threads': self.workers,
			'monitor_username': 'monitor',
			'monitor_password': 'monitor',
			'monitor_ping_interval': 500,
			'monitor_connect_interval': 1000,
			'monitor_read_only_interval': 200,
			'monitor_replication_lag_interval': 200,
			'monitor_writer_is_also_reader': False,
		}
		if is_instrumented():
			# Sixty logins at once take longer than the default second.
			variables['connect_timeout_server'] = 10000
		variables.update(self.given_variables)
		admin = {'admin_credentials': 'admin:admin', 'stats_credentials': 'stats:stats',
			'pgsql_ifaces': '127.0.0.1:%d' % self.admin_port}
		admin.update(self.given_admin_variables)
		config = {'datadir': self.datadir, 'admin_variables': admin, 'pgsql_variables': variables,
			'pgsql_servers': self.servers, 'pgsql_users': self.users}
		if self.pair:
			config['pgsql_replication_hostgroups'] = [self.pair]
		if self.rules:
			config['pgsql_query_rules'] = self.rules
		config.update(self.extra)
		return config

	def argv(self, initial=True):
		return [binary(), '-f', '-c', self.cnf, '-D', self.datadir] + (
			['--initial'] if initial else [])

	# -- process

	def start(self, initial=True, timeout=20.0):
		for attempt in range(4):
			with open(self.cnf, 'w', encoding='utf-8') as f:
				f.write(render(self.config()))
			self._spawn(initial)
			if self._wait_answers(timeout):
				break
			# Another program took a port between the reservation and the start: choose again.
			if attempt == 3 or 'ddress already in use' not in self.log():
				raise RuntimeError('the proxy did not start:\n' + self.log()[-4000:])
			self.port, self.admin_port = ports.reserve(), ports.reserve()
		if self.wait_roles:
			self.wait_for_roles(timeout)

	def _spawn(self, initial):
		env = dict(os.environ)
		env.setdefault('ASAN_OPTIONS', 'exitcode=99:detect_stack_use_after_return=1')
		env.setdefault('UBSAN_OPTIONS', 'print_stacktrace=1:halt_on_error=1:exitcode=99')
		env.setdefault('TSAN_OPTIONS', 'exitcode=99:halt_on_error=0')
		self.proc = self.work.spawn(self.name, self.argv(initial), self.log_path, env=env)

	def _wait_answers(self, timeout):
		deadline = time.monotonic() + timeout
		while time.monotonic() < deadline:
			if self.proc.poll() is not None:
				return False
			try:
				self.admin('select 1')
				with wire.Wire(self.address, 2.0):
					return True
			except (OSError, wire.WireError, wire.Closed, wire.Timeout):
				time.sleep(0.02)
		raise RuntimeError('the proxy does not answer:\n' + self.log()[-4000:])

	def wait_for_roles(self, timeout=20.0):
		"""Until the monitor's view of the servers is the cluster's."""
		want = {(WRITER, self.cluster.primary.port)}
		want |= {(READER, r.port) for r in self.cluster.replicas if r.running()}
		eventually(lambda: want <= self.online(), timeout, 'servers %s online' % sorted(want))

	def online(self):
		rows = self.admin("select hostgroup, srv_port from stats_pgsql_connection_pool"
			" where status = 'ONLINE'").rows
		return {(int(h), int(p)) for h, p in rows}

	def running(self):
		return self.proc is not None and self.proc.poll() is None

	def stop(self, timeout=20.0):
		"""SIGTERM must end it with exit code 0, a log without fault reports, and no backend
		left."""
		if self.proc is None:
			return
		if self.proc.poll() is None:
			self.proc.send_signal(signal.SIGTERM)
			eventually(lambda: self.proc.poll() is not None, timeout,
				'end of the proxy after SIGTERM')
		code = self.proc.returncode
		self.proc = None
		self.work.forget(self.name)
		assert code == 0, 'proxy ended with %s:\n%s' % (code, self.log()[-4000:])
		self.check_log()
		self.check_no_backends()

	def check_log(self):
		found = _FAULT_REPORT.search(self.log())
		if found:
			at = max(0, found.start() - 200)
			raise AssertionError('fault in the proxy log:\n' + self.log()[at:at + 6000])

	def check_no_backends(self, timeout=10.0):
		if self.cluster is None or any(p.running() for p in self.cluster.proxies):
			return  # the sessions may be another proxy's: the last one to stop is asked
		for node in self.cluster.nodes:
			if node.running():
				eventually(lambda n=node: n.proxied_backends() == 0, timeout,
					'no session of the proxy left on ' + node.name)

	def kill(self):
		if self.running():
			self.proc.kill()
			self.proc.wait()
		self.proc = None
		self.work.forget(self.name)

	def release(self):
		ports.release(self.port)
		ports.release(self.admin_port)
		if self.owns_work:
			self.work.close()

	def log(self):
		try:
			with open(self.log_path, encoding='utf-8', errors='replace') as f:
				return f.read()
		except OSError:
			return ''

	# -- observation of the process

	def may_grow_kb(self, mebibytes):
		"""Bound for the growth of rss_kb() in a test."""
		return mebibytes * 1024 * (4 if is_instrumented() else 1)

	def rss_kb(self):
		with open('/proc/%d/status' % self.proc.pid, encoding='ascii') as f:
			return int(re.search(r'VmRSS:\s+(\d+)', f.read()).group(1))

	def open_files(self):
		return len(os.listdir('/proc/%d/fd' % self.proc.pid))

	def cpu_seconds(self):
		with open('/proc/%d/stat' % self.proc.pid, encoding='ascii') as f:
			fields = f.read().rsplit(')', 1)[1].split()
		return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

	# -- sessions

	@property
	def address(self):
		return (self.host, self.port)

	@property
	def admin_address(self):
		return (self.host, self.admin_port)

	def session(self, user='app', password='app-secret', database='app', **params):
		return wire.connect(self.address, user, password, database, **params)

	def admin(self, statement, user='admin', password='admin'):
		with wire.connect(self.admin_address, user, password, 'main', timeout=20.0) as session:
			return session.sql(statement)

	def admin_scalar(self, statement):
		return self.admin(statement).scalar

	# -- statistics

	def global_stats(self):
		return dict(self.admin('select * from stats_pgsql_global').rows)

	def queries_by_port(self):
		"""Statements sent to each server, by its port (both hostgroups added)."""
		rows = self.admin('select srv_port, sum(Queries) from stats_pgsql_connection_pool'
			' group by srv_port').rows
		return {int(p): int(q) for p, q in rows}

	def reasons(self):
		"""Route reasons and how often each was given."""
		rows = self.admin('select reason, sum(count_star) from stats_pgsql_route_reasons'
			' group by reason').rows
		return {r: int(c) for r, c in rows}
