#!/usr/bin/python3
"""Drivers of other languages, each with a program in its own style (test/clients), at the server and
through the proxy."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import same_lines  # noqa: E402
from real_clients import CLIENTS, Stack, compare, run  # noqa: E402

TIMEOUT = 180
STACK = None
JDBC = '/usr/share/java/postgresql.jar'


def setup():
	global STACK
	STACK = Stack()


def teardown():
	STACK.close()


def _built(argv, what):
	done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
	assert done.returncode == 0, '%s:\n%s' % (what, done.stdout[-4000:])
	return done.stdout.strip()


def test_node_postgres():
	modules = _built([os.path.join(CLIENTS, 'fetch-node-modules')], 'node modules').splitlines()[-1]
	compare(STACK, ['node', '--no-deprecation', os.path.join(CLIENTS, 'node_client.js')], 'node-postgres',
		NODE_PATH=os.path.join(modules, 'node_modules'))


def test_pgjdbc():
	with tempfile.TemporaryDirectory() as folder:
		_built(['javac', '-cp', JDBC, '-d', folder, os.path.join(CLIENTS, 'Jdbc_Client.java')], 'JDBC client')
		argv = ['java', '-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp', folder + ':' + JDBC,
			'Jdbc_Client']

		def once(address):
			return run(argv + ['jdbc:postgresql://%s:%d/app' % address], address, timeout=120)

		same_lines(once(STACK.through), once(STACK.direct), 'pgJDBC')


def test_libpqxx():
	with tempfile.TemporaryDirectory() as folder:
		program = os.path.join(folder, 'client')
		_built(['g++', '-std=c++17', '-O1', '-w', os.path.join(CLIENTS, 'pqxx_client.cpp'), '-o', program,
			'-lpqxx', '-lpq'], 'libpqxx client')
		compare(STACK, [program], 'libpqxx')


def test_dbd_pg():
	compare(STACK, ['/usr/bin/perl', os.path.join(CLIENTS, 'dbd_client.pl')], 'DBD::Pg')


runner.main(globals())
