"""Scripts of several clients, straight at a primary and through proxies whose pools are so small that
whatever one client leaves meets the next: a server with one connection, with two, and a pair."""
from checks import same_lines
from cluster import Cluster, Proxy
from cluster.wire import query, transcript


def make_stacks(sql):
	"""[(name, cluster, proxy)], with `sql` run on both clusters."""
	plain = Cluster('stock', 0)
	pair = Cluster('kernel', 1)
	for cluster in (plain, pair):
		cluster.primary.sql(sql + '; grant all on all tables in schema public to app;'
			'grant all on all sequences in schema public to app; grant all on schema public to app', 'app')
		cluster.wait_caught_up()
	stacks = []
	for size in (1, 2):
		servers = [{'address': '127.0.0.1', 'port': plain.primary.port, 'hostgroup': 10,
			'max_connections': size}]
		stacks.append(('%d connection(s)' % size, plain, Proxy(plain, pair=None, workers=1,
			servers=servers, variables={'connect_timeout_server_max': '3000'})))
	# What one client has written the other is to see, so that there is one right answer.
	stacks.append(('split', pair, Proxy(pair, workers=1, consistency='global_lsn')))
	return stacks


def close_stacks(stacks):
	for _, _, proxy in stacks:
		proxy.stop()
	for cluster in {id(c): c for _, c, _ in stacks}.values():
		cluster.close()


def _play(connect, steps):
	"""steps: (client, bytes or text, what to read): an int n reads n ReadyForQuery, letters read up to
	one message each. The transcript of each client."""
	clients, told = {}, {}
	try:
		for name, data, *wanted in steps:
			if name not in clients:
				clients[name] = connect()
				told[name] = []
			clients[name].send(query(data) if isinstance(data, str) else data)
			wanted = wanted[0] if wanted else 1
			if isinstance(wanted, str):
				for letter in wanted:
					told[name] += clients[name].read_until(letter, 15)
				continue
			for _ in range(wanted):
				told[name] += clients[name].read_ready(15)
		return {name: transcript(messages) for name, messages in told.items()}
	finally:
		for client in clients.values():
			client.close()


def compare(stacks, steps, before=None, rounds=2):
	"""Each client is told through the proxy what it is told by the server itself. `before`: SQL that
	makes every run start from the same."""
	for name, cluster, proxy in stacks:
		def run(connect, server=cluster.primary):
			if before:
				server.sql(before, 'app')
			return _play(connect, steps)
		wanted = run(lambda c=cluster: c.primary.session('app', 'app', 'app-secret', application_name=''))
		for i in range(rounds):
			got = run(proxy.session)
			for client in wanted:
				same_lines(got[client], wanted[client], '%s, round %d, client %s' % (name, i + 1, client))
