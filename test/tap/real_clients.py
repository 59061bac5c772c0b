"""Real client programs: each workload runs straight at the primary and through the proxy, and what
it prints must be equal. Two server connections at most, so that whatever one client leaves on a
connection meets the next one.
"""
import os
import subprocess

from checks import same_lines
from cluster import READER, WRITER, Cluster, Proxy
from cluster.flavours import ROOT

CLIENTS = os.path.join(ROOT, 'test', 'clients')
SUPERUSER = 'boss'
PASSWORD = {'app': 'app-secret', SUPERUSER: 'boss-secret'}


class Stack:
	"""A primary with a replica, session-consistent reads, and a proxy with a small pool. Flavour
	stock: one server with Debian's extensions, no replica."""

	def __init__(self, server_connections=2, variables=None, flavour='kernel'):
		self.cluster = Cluster(flavour, 1 if flavour == 'kernel' else 0)
		self.cluster.primary.sql("create role %s login superuser password '%s'" % (
			SUPERUSER, PASSWORD[SUPERUSER]))
		self.cluster.wait_caught_up()
		servers = [{'address': '127.0.0.1', 'port': node.port, 'max_connections': server_connections,
			'hostgroup': WRITER if node is self.cluster.primary else READER}
			for node in self.cluster.nodes]
		users = [{'username': name, 'password': password, 'default_hostgroup': WRITER}
			for name, password in PASSWORD.items()]
		self.proxy = Proxy(self.cluster, servers=servers, users=users, variables=variables,
			pair='auto' if flavour == 'kernel' else None)

	@property
	def direct(self):
		return ('127.0.0.1', self.cluster.primary.port)

	@property
	def through(self):
		return self.proxy.address

	def close(self):
		self.proxy.stop()
		self.cluster.close()


def environment(address, user='app', database='app', **more):
	env = dict(os.environ, PGHOST=address[0], PGPORT=str(address[1]), PGUSER=user,
		PGPASSWORD=PASSWORD[user], PGDATABASE=database, PGOPTIONS='', PGSSLMODE='disable',
		PGAPPNAME='client', LC_ALL='C.UTF-8', TZ='UTC')
	env.update(more)
	return env


def run(argv, address, user='app', database='app', timeout=60, stdin='', fails=False, **more):
	"""Standard output and errors of a client program, in the order they came."""
	done = subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
		text=True, timeout=timeout, env=environment(address, user, database, **more))
	assert fails or done.returncode == 0, '%s ended with %d:\n%s' % (
		' '.join(argv), done.returncode, done.stdout[-4000:])
	return done.stdout


def compare(stack, argv, what, rounds=2, clean=None, normalise=None, **more):
	"""The same program at the primary and, `rounds` times, through the proxy. `clean`: SQL that
	takes back what a run leaves. Gives back the output, which must not be empty."""
	def once(address):
		text = run(argv, address, **more)
		if clean:
			stack.cluster.primary.sql(clean, 'app')
			stack.cluster.wait_caught_up()
		return normalise(text) if normalise else text

	wanted = once(stack.direct)
	assert wanted.strip(), '%s printed nothing' % what
	for i in range(rounds):
		same_lines(once(stack.through), wanted, '%s, round %d' % (what, i + 1))
	return wanted
