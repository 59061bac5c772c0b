#!/usr/bin/python3
"""What an idle client costs the proxy: bytes of its memory, and its processor time while all idle.

	test/bench/idle_clients.py                   10,000 plain and 10,000 TLS clients
	test/bench/idle_clients.py --clients 2000    fewer

Each client logs in, runs one simple query and one extended query with a named statement, and stays.
Memory is the growth of the process (VmRSS) per client, after the allocator has had time to give back
what the logins needed for a moment.
"""
import argparse
import os
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from cluster import Cluster, Proxy, wire  # noqa: E402
from cluster.wire import bind, describe, execute, parse, sync  # noqa: E402

SETTLE_SECONDS = 12  # jemalloc gives freed pages back within ten
WARM_UP = 50


class Idle_Clients:
	"""Many clients of one proxy, held as bare sockets: this side must not need memory either."""

	def __init__(self, proxy, tls=False):
		self.proxy = proxy
		self.tls = tls
		self.sockets = []

	def add(self, count):
		for _ in range(count):
			session = wire.connect(self.proxy.address, 'app', 'app-secret', 'app', timeout=30,
				tls=self.tls, application_name='idle client')
			assert session.scalar('select 1') == '1'
			session.send(parse('select $1::int + 1', 'statement_one') + bind(['1'], 'statement_one') +
				describe('P') + execute() + sync())
			messages = session.read_ready(30)
			assert [kind for kind, _ in messages] == list('12TDCZ'), messages
			# The TLS state of this side is dropped, its socket stays.
			self.sockets.append(session.sock.detach())

	def check_alive(self, descriptor):
		"""Plain clients only: a query on one of the sockets is answered."""
		sock = socket.socket(fileno=os.dup(descriptor))
		sock.settimeout(10)
		sock.sendall(wire.query('select 2'))
		data = b''
		while not data.endswith(b'Z' + struct.pack('!I', 5) + b'I'):
			part = sock.recv(65536)
			assert part, 'an idle client was disconnected'
			data += part
		sock.close()

	def close(self):
		for descriptor in self.sockets:
			os.close(descriptor)
		self.sockets = []


def cpu_share(proxy, seconds):
	"""Processor time of the proxy per second of doing nothing."""
	used, start = cpu_seconds_precise(proxy), time.monotonic()
	time.sleep(seconds)
	return (cpu_seconds_precise(proxy) - used) / (time.monotonic() - start)


def cpu_seconds_precise(proxy):
	"""Of all threads, in nanoseconds' precision (ticks are too coarse for nearly nothing)."""
	total = 0
	for thread in os.listdir('/proc/%d/task' % proxy.proc.pid):
		with open('/proc/%d/task/%s/schedstat' % (proxy.proc.pid, thread), encoding='ascii') as f:
			total += int(f.read().split()[0])
	return total / 1e9


def new_proxy(cluster):
	"""One whose monitor is quiet, so that what is measured is the clients' cost."""
	hour = 3600 * 1000
	return Proxy(cluster, pair=None, workers=2, wait_roles=False, variables={
		'max_connections': 100000, 'authentication_method': 1, 'monitor_ping_interval': hour,
		'monitor_connect_interval': hour, 'monitor_read_only_interval': hour,
		'monitor_replication_lag_interval': hour},
		users=[{'username': 'app', 'password': 'app-secret', 'default_hostgroup': 10,
			'max_connections': 100000}])


def measure(cluster, count, tls, idle_seconds=10, settle_seconds=SETTLE_SECONDS):
	"""(bytes a client, CPU share of one core while all of them idle)"""
	with new_proxy(cluster) as proxy:
		clients = Idle_Clients(proxy, tls)
		clients.add(WARM_UP)
		base = proxy.rss_kb()
		clients.add(count)
		time.sleep(settle_seconds)
		each = (proxy.rss_kb() - base) * 1024 / count
		idle = cpu_share(proxy, idle_seconds)
		if not tls:
			clients.check_alive(clients.sockets[0])
			clients.check_alive(clients.sockets[-1])
		clients.close()
	return each, idle


def main():
	parser = argparse.ArgumentParser(description=__doc__)
	parser.add_argument('--clients', type=int, default=10000)
	parser.add_argument('--only', choices=('plain', 'tls'))
	args = parser.parse_args()
	with Cluster('stock', 0) as cluster:
		for kind in ('plain', 'tls'):
			if args.only in (None, kind):
				each, idle = measure(cluster, args.clients, kind == 'tls')
				print('%-5s  %6d clients  %6.1f KiB each  %.3f %% of a core while idle' % (
					kind, args.clients, each / 1024, idle * 100), flush=True)


if __name__ == '__main__':
	main()
