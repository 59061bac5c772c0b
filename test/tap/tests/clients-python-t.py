#!/usr/bin/python3
"""Python's drivers, each with a program in its own style (test/clients), at the server and through
the proxy."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from real_clients import CLIENTS, Stack, compare  # noqa: E402

TIMEOUT = 120
STACK = None


def setup():
	global STACK
	STACK = Stack()


def teardown():
	STACK.close()


def _program(name):
	return ['/usr/bin/python3', os.path.join(CLIENTS, name)]


def test_psycopg2():
	compare(STACK, _program('psycopg2_client.py'), 'psycopg2')


def test_psycopg3_sync_async_and_pipeline():
	compare(STACK, _program('psycopg3_client.py'), 'psycopg 3')


def test_asyncpg():
	compare(STACK, _program('asyncpg_client.py'), 'asyncpg')


runner.main(globals())
