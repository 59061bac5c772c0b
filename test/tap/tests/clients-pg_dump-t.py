#!/usr/bin/python3
"""pg_dump and pg_restore through the proxy: a database with an object of every kind, dumped,
restored and dumped again; all dumps are the same as the server's own."""
import contextlib
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import PG_BIN, equal, same_lines  # noqa: E402
from real_clients import CLIENTS, SUPERUSER, Stack, environment, run  # noqa: E402

TIMEOUT = 180
STACK = None


def setup():
	global STACK
	STACK = Stack(server_connections=4, flavour='stock')
	primary = STACK.cluster.primary
	primary.sql('create database app_dump owner app')
	run([os.path.join(PG_BIN, 'psql'), '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f',
		os.path.join(CLIENTS, 'every_kind.sql')], STACK.direct, user=SUPERUSER, database='app_dump')


def teardown():
	for name in ('app_dump', 'app_copy'):
		if STACK.cluster.primary.scalar("select count(*) from pg_database where datname = '%s'" % name) != '0':
			STACK.cluster.primary.sql('drop subscription if exists sub', name)
	STACK.close()


def _program(name):
	return os.path.join(PG_BIN, name)


def _dump(address, database='app_dump', *options, encoding='utf-8'):
	done = subprocess.run([_program('pg_dump'), '--no-sync'] + list(options), stdout=subprocess.PIPE,
		stderr=subprocess.STDOUT, env=environment(address, SUPERUSER, database), timeout=60)
	text = done.stdout.decode(encoding)
	assert done.returncode == 0, text[-2000:]
	# Newer minor versions put a random word around the script.
	return re.sub(r'(?m)^\\(un)?restrict \w+$', r'\\\1restrict WORD', text)


@contextlib.contextmanager
def _empty_copy():
	"""Database app_copy; what is restored into it must dump like the original."""
	primary = STACK.cluster.primary
	primary.sql('create database app_copy owner app')
	try:
		yield
		same_lines(_dump(STACK.direct, 'app_copy'), _dump(STACK.direct), 'dump of what was restored')
	finally:
		primary.sql('drop subscription if exists sub', 'app_copy')
		primary.sql('drop database app_copy with (force)')


def test_dump_through_the_proxy_is_the_servers():
	wanted = _dump(STACK.direct)
	for word in ('EVENT TRIGGER', 'CREATE POLICY', 'lo_create', 'CREATE SUBSCRIPTION', 'TEXT SEARCH PARSER',
			'CREATE STATISTICS', 'PARTITION', 'CREATE RULE', 'OPERATOR CLASS', 'CREATE CAST',
			'USER MAPPING', 'MATERIALIZED'):
		assert word in wanted, '%s is not in the dump: the schema lost it' % word
	for i in range(2):
		same_lines(_dump(STACK.through), wanted, 'dump, round %d' % (i + 1))


def test_dump_as_insert_commands_in_another_encoding():
	options = ('--inserts', '--rows-per-insert=7', '--encoding=LATIN1', '--column-inserts')
	wanted = _dump(STACK.direct, 'app_dump', *options, encoding='latin-1')
	assert 'INSERT INTO' in wanted
	same_lines(_dump(STACK.through, 'app_dump', *options, encoding='latin-1'), wanted, 'dump')


def test_dump_piped_into_restore():
	with _empty_copy():
		env = environment(STACK.through, SUPERUSER, 'app_dump')
		dump = subprocess.Popen([_program('pg_dump'), '-Fc', '--no-sync'], env=env, stdout=subprocess.PIPE)
		restore = subprocess.run([_program('pg_restore'), '--exit-on-error', '-d', 'app_copy'], env=env,
			stdin=dump.stdout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=90)
		dump.stdout.close()
		equal(dump.wait(30), 0)
		assert restore.returncode == 0, restore.stdout[-4000:]


def test_parallel_dump_and_restore_in_the_folder_format():
	folder = STACK.cluster.work.file('dump.d')
	with _empty_copy():
		run([_program('pg_dump'), '-Fd', '-j', '2', '--no-sync', '-f', folder], STACK.through, user=SUPERUSER,
			database='app_dump')
		run([_program('pg_restore'), '-j', '2', '--exit-on-error', '-d', 'app_copy', folder], STACK.through,
			user=SUPERUSER, database='app_copy')


def test_dumpall_of_the_globals():
	def globals_of(address):
		return run([_program('pg_dumpall'), '-g', '--no-sync'], address, user=SUPERUSER, database='postgres')

	wanted = globals_of(STACK.direct)
	assert 'CREATE ROLE app' in wanted
	same_lines(re.sub(r'restrict \w+', 'restrict W', globals_of(STACK.through)),
		re.sub(r'restrict \w+', 'restrict W', wanted), 'pg_dumpall -g')


runner.main(globals())
