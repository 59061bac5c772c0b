#!/usr/bin/python3
"""What many idle clients cost: memory each, and no processor time. test/bench/idle_clients.py has
the same with 10,000 clients; POLAR_IDLE_CLIENTS=10000 does it here."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'bench'))
import idle_clients  # noqa: E402
import runner  # noqa: E402
from cluster import Cluster  # noqa: E402
from cluster.proxy import is_instrumented  # noqa: E402

TIMEOUT = 600
CLIENTS = int(os.environ.get('POLAR_IDLE_CLIENTS', 2000))
LIMITS_KIB = {'plain': 10, 'tls': 40}
MAX_CPU_SHARE = 0.002  # of one core, for all of them
CLUSTER = None


def setup():
	global CLUSTER
	CLUSTER = Cluster('stock', 0)


def teardown():
	CLUSTER.close()


def check(kind):
	count = CLIENTS // 10 if is_instrumented() else CLIENTS
	each, cpu = idle_clients.measure(CLUSTER, count, kind == 'tls', idle_seconds=5)
	print('# %s: %d clients, %.1f KiB each, %.3f %% of a core' % (kind, count, each / 1024,
		cpu * 100))
	if is_instrumented():
		return  # memory and time of a sanitizer's build say nothing
	assert each <= LIMITS_KIB[kind] * 1024, '%s: %.1f KiB each' % (kind, each / 1024)
	assert cpu < MAX_CPU_SHARE, '%s: %.3f %% of a core while idle' % (kind, cpu * 100)


def test_an_idle_plain_client_costs_little():
	check('plain')


def test_an_idle_tls_client_costs_little():
	check('tls')


if __name__ == '__main__':
	runner.main(globals())
