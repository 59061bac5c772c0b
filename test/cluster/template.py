"""Data directories that are ready to start, made once and kept in a cache.

A cleanly stopped directory can be copied and started as a primary, and the same copy with a
standby.signal starts as its hot standby: both agree on system identifier, timeline and the position
of the last checkpoint. That is much faster than initdb and pg_basebackup for every test.
"""
import fcntl
import hashlib
import os
import shutil
import subprocess
import time

from . import wire
from .flavours import ROOT
from .workspace import Workspace, give_to_server, server_identity

APP_PASSWORD = 'app-secret'
MONITOR_PASSWORD = 'monitor'

# Every setting a standby must not have smaller than its primary is fixed here, in the template.
SETTINGS = {
	'listen_addresses': "'127.0.0.1'",
	'max_connections': 300,
	'superuser_reserved_connections': 5,
	'shared_buffers': '32MB',
	'dynamic_shared_memory_type': 'mmap',
	'fsync': 'off',
	'wal_level': 'replica',
	'max_wal_senders': 10,
	'wal_keep_size': '1GB',
	'max_wal_size': '1GB',
	'hot_standby': 'on',
	'hot_standby_feedback': 'on',
	'max_standby_streaming_delay': '30s',
	'wal_receiver_status_interval': '1s',
	'wal_retrieve_retry_interval': '100ms',
	'max_prepared_transactions': 10,
	'log_line_prefix': "'%m [%p] %q%u@%d/%a '",
	'log_checkpoints': 'off',
	'ssl': 'off',
}

HBA = '''# TYPE DATABASE USER ADDRESS METHOD
local all all trust
host replication postgres 127.0.0.1/32 trust
host all postgres 127.0.0.1/32 trust
host all app_md5 127.0.0.1/32 md5
host all app_clear 127.0.0.1/32 password
host all app_trust 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
'''

ROLES = [
	"create role app login password 'app-secret'",
	"create role app2 login password 'app2-secret'",
	"create role app_clear login password 'app-secret'",
	"create role app_trust login",
	"create role monitor login password 'monitor' in role pg_monitor",
	"set password_encryption = 'md5'",
	"create role app_md5 login password 'app-secret'",
	"grant app to app2, app_md5, app_clear, app_trust",
	"grant all on schema public to public",
	"create database app owner app",
]


def cache_dir():
	"""Where long builds are cached; one script decides that for all of them."""
	run = subprocess.run([os.path.join(ROOT, 'scripts', 'cache-dir')], stdout=subprocess.PIPE,
		check=True, text=True)
	return run.stdout.strip()


def _key(flavour):
	with open(__file__, 'rb') as f:
		recipe = f.read()
	text = '%s|%s|%s' % (flavour.version(), flavour.prefix, sorted(flavour.settings.items()))
	return hashlib.sha256(recipe + text.encode()).hexdigest()[:16]


def write_settings(datadir, settings):
	with open(os.path.join(datadir, 'postgresql.conf'), 'a', encoding='utf-8') as f:
		for name, value in settings.items():
			f.write('%s = %s\n' % (name, value))


def _build(flavour, target):
	work = Workspace()
	try:
		data = work.file('data')
		os.mkdir(data, 0o700)
		give_to_server(work.path)
		subprocess.run(
			[flavour.program('initdb'), '-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8',
				'--locale=C.UTF-8', '--no-sync'],
			stdout=subprocess.DEVNULL, check=True, cwd=work.path, **server_identity())
		write_settings(data, SETTINGS)
		write_settings(data, flavour.settings)
		with open(os.path.join(data, 'pg_hba.conf'), 'w', encoding='utf-8') as f:
			f.write(HBA)
		log = work.file('log')
		server = work.spawn('data', [flavour.program('postgres'), '-D', data, '-k', work.path,
			'-c', 'listen_addresses=', '-p', '5432'], log, as_server=True)
		deadline = time.monotonic() + 30
		while True:
			try:
				session = wire.connect(work.file('.s.PGSQL.5432'), 'postgres', database='postgres')
				break
			except (OSError, wire.WireError, wire.Closed):
				if time.monotonic() > deadline or server.poll() is not None:
					with open(log, encoding='utf-8') as f:
						raise RuntimeError('template server did not start:\n' + f.read()) from None
				time.sleep(0.05)
		for statement in ROLES:
			session.sql(statement)
		session.close()
		with wire.connect(work.file('.s.PGSQL.5432'), 'postgres', database='app') as session:
			session.sql('grant all on schema public to public')
			session.sql('checkpoint')
		server.send_signal(2)  # SIGINT: fast shutdown, which ends with a checkpoint
		server.wait(30)
		partial = '%s.%d' % (target, os.getpid())
		subprocess.run(['cp', '-a', data, partial], check=True)
		os.rename(partial, target)
	finally:
		work.close()


def get(flavour):
	"""The path of a template directory for the flavour; builds it when it is not there yet."""
	cache = cache_dir()
	target = os.path.join(cache, 'pgdata-%s-%s' % (flavour.name, _key(flavour)))
	if os.path.isdir(target):
		os.utime(target)
		return target
	with open(target + '.lock', 'w', encoding='ascii') as lock:
		fcntl.flock(lock, fcntl.LOCK_EX)
		if not os.path.isdir(target):
			_build(flavour, target)
			_drop_old(cache)
	return target


def _drop_old(cache):
	"""Templates nobody used for two weeks."""
	for name in os.listdir(cache):
		path = os.path.join(cache, name)
		if name.startswith('pgdata-') and time.time() - os.stat(path).st_mtime > 14 * 86400:
			if os.path.isdir(path):
				shutil.rmtree(path, ignore_errors=True)
			else:
				os.unlink(path)


def copy(template, datadir):
	subprocess.run(['cp', '-a', '--reflink=auto', template, datadir], check=True)
	if os.getuid() == 0:
		give_to_server(datadir)
