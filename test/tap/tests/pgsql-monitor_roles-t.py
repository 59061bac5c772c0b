#!/usr/bin/python3
"""pgsql_replication_hostgroups: the monitor finds out who is primary and who is down, and says
so."""
import time
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal  # noqa: E402
from cluster import READER, WRITER, Cluster, Proxy, WireError, eventually, wire  # noqa: E402

TIMEOUT = 90


def _runtime(proxy):
	"""(hostgroup, port) of the servers that may be used now."""
	rows = proxy.admin(
		"select hostgroup_id, port from runtime_pgsql_servers where status = 'ONLINE'").rows
	return {(int(h), int(p)) for h, p in rows}


def _servers(cluster, group):
	return [{'address': '127.0.0.1', 'port': n.port, 'hostgroup': group} for n in cluster.nodes]


def test_roles_are_found_whatever_was_configured():
	with Cluster('stock', 2) as cluster:
		want = {(WRITER, cluster.primary.port)} | {(READER, r.port) for r in cluster.replicas}
		for group in (WRITER, READER):
			with Proxy(cluster, servers=_servers(cluster, group), name='p%d' % group) as proxy:
				eventually(lambda p=proxy: _runtime(p) == want, what='roles from hostgroup %d' %
					group)
				with proxy.session() as session:
					equal(int(session.scalar('/* route=primary */ select inet_server_port()')),
						cluster.primary.port)


def test_promotion_moves_the_writer():
	with Cluster('stock', 2) as cluster, Proxy(cluster) as proxy:
		old, new = cluster.primary, cluster.replicas[0]
		old.kill9()
		new.promote()
		eventually(lambda: (WRITER, new.port) in _runtime(proxy), 30, 'the new writer')

		def writes():
			try:
				with proxy.session() as session:
					session.sql('create table if not exists after_promotion (i int)')
					return int(
						session.scalar('/* route=primary */ select inet_server_port()')) == new.port
			except (WireError, wire.Closed):
				return False
		eventually(writes, 30, 'a write on the new primary')
		# The old one comes back as a standby of the new one and must not get writes.
		cluster.backup_into(old, new)
		old.start()
		eventually(lambda: (READER, old.port) in _runtime(proxy), 30, 'the old primary as reader')
		assert (WRITER, old.port) not in _runtime(proxy)


def test_dead_replica_is_left_out_and_comes_back():
	with Cluster('stock', 2) as cluster, Proxy(cluster) as proxy:
		dead, alive = cluster.replicas
		dead.kill9()
		with proxy.session() as session:
			for _ in range(50):
				session.sql('select inet_server_port()', timeout=5)
		eventually(lambda: (READER, dead.port) not in proxy.online(), 15,
			'the dead replica shunned')
		with proxy.session() as session:
			ports = {int(session.scalar('select inet_server_port()')) for _ in range(20)}
		assert dead.port not in ports and alive.port in ports, ports
		dead.start()
		eventually(lambda: (READER, dead.port) in proxy.online(), 30, 'the replica back')

		def used():
			with proxy.session() as session:
				return dead.port in {
					int(session.scalar('select inet_server_port()')) for _ in range(10)}
		eventually(used, 30, 'reads on the returned replica')


def test_frozen_replica_holds_nobody_up():
	with Cluster('stock', 2) as cluster, Proxy(cluster) as proxy:
		frozen = cluster.replicas[0]
		frozen.freeze()
		try:
			eventually(lambda: (READER, frozen.port) not in proxy.online(), 20,
				'the frozen replica shunned')
			with proxy.session() as session:
				start = time.monotonic()
				for _ in range(50):
					session.sql('select inet_server_port()', timeout=10)
				assert time.monotonic() - start < 5
		finally:
			frozen.thaw()
		eventually(lambda: (READER, frozen.port) in proxy.online(), 30, 'the replica back')


def test_no_replica_left_reads_run_on_the_primary():
	with Cluster('stock', 1) as cluster, Proxy(cluster) as proxy:
		cluster.replicas[0].kill9()

		def reads():
			try:
				with proxy.session() as session:
					return int(session.scalar('select inet_server_port()')) == cluster.primary.port
			except (WireError, wire.Closed):
				return False
		eventually(reads, 20, 'a read on the primary')


def test_dead_primary_gives_clear_errors_and_reads_go_on():
	with Cluster('stock', 2) as cluster, Proxy(cluster,
			variables={'connect_timeout_server_max': 1500}) as proxy:
		cluster.primary.kill9()
		time.sleep(1)
		with proxy.session() as session:
			try:
				session.sql('create table t (i int)', timeout=15)
				raise AssertionError('a write succeeded without a primary')
			except WireError as e:
				assert e.sqlstate[:2] in ('08', '57') or e.sqlstate == '53300', e
		with proxy.session() as session:
			assert int(session.scalar('select inet_server_port()', timeout=15)) in [
				r.port for r in cluster.replicas]
		cluster.primary.start()

		def writes():
			try:
				with proxy.session() as session:
					session.sql('create table if not exists t (i int)')
					return True
			except (WireError, wire.Closed):
				return False
		eventually(writes, 30, 'writes after the primary returned')


def test_monitor_logs_are_filled():
	with Cluster('stock', 1) as cluster, Proxy(cluster) as proxy:
		for table in ('pgsql_server_connect_log', 'pgsql_server_ping_log',
				'pgsql_server_read_only_log'):
			eventually(lambda t=table: int(proxy.admin_scalar('select count(*) from monitor.%s' %
				t)) > 0,
				what=table)


if __name__ == '__main__':
	runner.main(globals())
