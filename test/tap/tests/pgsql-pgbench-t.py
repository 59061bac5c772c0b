#!/usr/bin/python3
"""pgbench through the proxy: TPC-B, read-only, every query mode; balances, and who served the
reads.

POLAR_LOAD_SECONDS makes the runs longer (60 for the full proof).
"""
import re
import threading
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, load_seconds, pgbench  # noqa: E402
from cluster import Cluster, Proxy, eventually  # noqa: E402

TIMEOUT = 240
SECONDS = load_seconds(5)
CLUSTER = PROXY = None


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('kernel', 2)
	PROXY = Proxy(CLUSTER)
	pgbench(PROXY.address, ['-i', '-q', '-s', '4', '-I', 'dtGvp'])
	CLUSTER.wait_caught_up()


def teardown():
	PROXY.stop()
	CLUSTER.close()


def _transactions(output):
	return int(re.search(r'number of transactions actually processed: (\d+)', output).group(1))


def _account_reads(node):
	"""Index scans of pgbench_accounts that the server itself counted."""
	return int(node.scalar("select coalesce(sum(idx_scan), 0) from pg_stat_user_tables"
		" where relname = 'pgbench_accounts'", 'app'))


def _balances_add_up():
	for table, column in (('accounts', 'abalance'), ('tellers', 'tbalance'),
			('branches', 'bbalance')):
		equal(CLUSTER.primary.scalar('select sum(%s) from pgbench_%s' % (column, table), 'app'),
			CLUSTER.primary.scalar('select coalesce(sum(delta), 0) from pgbench_history', 'app'),
			table)


def _tpcb(mode):
	before = int(CLUSTER.primary.scalar('select count(*) from pgbench_history', 'app'))
	output = pgbench(PROXY.address, ['-n', '-c', '64', '-j', '4', '-T', str(SECONDS), '-M', mode],
		timeout=SECONDS + 60)
	done = _transactions(output)
	assert done > 10 * SECONDS, output
	after = int(CLUSTER.primary.scalar('select count(*) from pgbench_history', 'app'))
	equal(after - before, done, 'rows in pgbench_history and transactions pgbench counted')
	_balances_add_up()


def test_tpcb_simple_protocol_64_clients():
	_tpcb('simple')


def test_tpcb_extended_protocol():
	_tpcb('extended')


def test_tpcb_prepared_statements():
	_tpcb('prepared')


def _settled_reads():
	"""Reads by node, once the sessions of the test before have reported all of theirs: they do it
	when they end, and late ones would count as reads of this test."""
	for node in CLUSTER.nodes:
		node.terminate_backends(user='app')
	last = []

	def settled():
		last.append([_account_reads(n) for n in CLUSTER.nodes])
		return len(last) > 2 and last[-1] == last[-2] == last[-3]
	eventually(settled, 20, 'counters of the servers at rest', 0.3)
	return last[-1]


def _read_only(mode):
	CLUSTER.wait_caught_up()
	before = _settled_reads()
	output = pgbench(PROXY.address, ['-n', '-S', '-c', '64', '-j', '4', '-T', str(SECONDS), '-M',
		mode],
		timeout=SECONDS + 60)
	done = _transactions(output)
	assert done > 50 * SECONDS, output
	# Servers report their counters when a session pauses or ends; ending the pool's sessions asks
	# now.
	for node in CLUSTER.nodes:
		node.terminate_backends(user='app')

	def grown():
		return [_account_reads(n) - b for n, b in zip(CLUSTER.nodes, before)]
	eventually(lambda: sum(grown()) >= done, 20, 'all reads counted by the servers (%d)' % done,
		0.2)
	on_primary, *on_replicas = grown()
	share = sum(on_replicas) / sum(grown())
	assert share >= 0.95, 'replicas served %.1f %%: %s' % (100 * share, grown())
	assert min(on_replicas) > 0.2 * sum(on_replicas), 'uneven: %s' % on_replicas
	assert on_primary + sum(on_replicas) <= done * 1.01 + 100, 'reads ran twice: %s of %d' % (
		grown(), done)


def test_read_only_simple_protocol_64_clients():
	_read_only('simple')


def test_read_only_prepared_statements():
	_read_only('prepared')


def test_a_connection_for_each_transaction():
	output = pgbench(PROXY.address, ['-n', '-S', '-C', '-c', '16', '-j', '2', '-t', '20'])
	equal(_transactions(output), 320)


def test_pool_much_smaller_than_the_clients():
	PROXY.admin('update pgsql_servers set max_connections = 3')
	PROXY.admin('load pgsql servers to runtime')
	try:
		for node in CLUSTER.nodes:
			node.terminate_backends(user='app')
		most = [0] * len(CLUSTER.nodes)
		done = threading.Event()

		def watch():
			while not done.wait(0.05):
				for i, node in enumerate(CLUSTER.nodes):
					most[i] = max(most[i], node.backends(user='app'))
		watcher = threading.Thread(target=watch)
		watcher.start()
		try:
			output = pgbench(PROXY.address, ['-n', '-c', '64', '-j', '4', '-t', '20', '-M',
				'simple'])
		finally:
			done.set()
			watcher.join()
		equal(_transactions(output), 1280)
		assert 0 < most[0] <= 3 and max(most) <= 3, 'most sessions on the servers: %s' % most
		_balances_add_up()
	finally:
		PROXY.admin('update pgsql_servers set max_connections = 1000')
		PROXY.admin('load pgsql servers to runtime')


if __name__ == '__main__':
	runner.main(globals())
