#!/usr/bin/python3
"""LISTEN and NOTIFY of clients that share server connections: each hears what a client of the server
itself would hear, at the moments a server would say it, and none keeps a server connection for it.
"""
import os
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error, in_threads  # noqa: E402
from cluster import Cluster, Proxy, eventually, wire  # noqa: E402
from cluster.wire import bind, describe, execute, parse, query, sync  # noqa: E402

TIMEOUT = 240
CLUSTER = PROXY = None
LIMIT = 65536  # pgsql-notification_queue_bytes


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 1)
	CLUSTER.primary.sql('create table jobs (i int); grant all on jobs to app;'
		'create function tells() returns trigger language plpgsql as $$ begin'
		" perform pg_notify('jobs', new.i::text); return new; end $$;"
		'create trigger tell after insert on jobs for each row execute function tells();'
		'create function hears(c text) returns void language plpgsql as'
		" $$ begin execute 'listen ' || quote_ident(c); end $$", 'app')
	CLUSTER.primary.sql('create database app_b', 'postgres')
	PROXY = Proxy(CLUSTER, workers=2, servers=_servers(), variables={
		'connect_timeout_server_max': '3000', 'notification_queue_bytes': LIMIT})


def _servers():
	return [{'address': '127.0.0.1', 'port': CLUSTER.primary.port, 'hostgroup': 10,
		'max_connections': 2},
		{'address': '127.0.0.1', 'port': CLUSTER.replicas[0].port, 'hostgroup': 20,
		'max_connections': 2}]


def teardown():
	PROXY.stop()
	CLUSTER.close()


def decoded(body):
	pid, = struct.unpack_from('!I', body)
	channel, payload, _ = body[4:].split(b'\0')
	return pid, channel.decode(), payload.decode()


def heard(session, count, timeout=10):
	"""The next notifications: [(channel, payload)]."""
	deadline = time.monotonic() + timeout
	while len(session.notifications) < count:
		kind, _ = session.read_message(max(0.01, deadline - time.monotonic()))
		equal(kind, 'A', 'message to an idle client')
	found = [decoded(b)[1:] for b in session.notifications]
	session.notifications = []
	return found


def silent(session):
	"""Nothing was on its way: a statement brings no notification along."""
	session.sql('select 1')
	equal(session.notifications, [])


def pin(session):
	return PROXY.admin('select pin_reasons from stats_pgsql_processlist where SessionID = %d' %
		session.pid).rows[0][0]


def listeners():
	"""Server processes of the proxy's own that listen."""
	return CLUSTER.primary.sql("select pid from pg_stat_activity"
		" where application_name = 'polar-proxy listen'").rows


def messages(session, data, timeout=10):
	session.send(data)
	return session.read_ready(timeout)


def kinds(found):
	return ''.join(k for k, _ in found)


# ---- who hears what ----

def test_many_listeners_share_one_server_connection():
	clients = [PROXY.session() for _ in range(20)]
	for i, client in enumerate(clients):
		client.sql('listen common')
		client.sql('listen own_%d' % i)
		equal(pin(client), None, 'pin of a client that listens')
	equal(len(listeners()), 1, 'listening server connections')
	with CLUSTER.primary.session('app', 'app', 'app-secret') as direct:
		direct.sql("notify common, 'all'")
		for i in range(20):
			direct.sql("notify own_%d, 'p%d'" % (i, i))
		for i, client in enumerate(clients):
			equal(heard(client, 2), [('common', 'all'), ('own_%d' % i, 'p%d' % i)])
			client.close()
	equal(CLUSTER.primary.sql('select count(*) from pg_listening_channels()').scalar, '0')


def test_first_notification_behind_the_answer_is_heard():
	with CLUSTER.primary.session('app', 'app', 'app-secret') as direct:
		for i in range(60):
			with PROXY.session() as client:
				client.sql('listen race%d' % (i % 7))
				direct.sql("notify race%d, '%d'" % (i % 7, i))
				equal(heard(client, 1), [('race%d' % (i % 7), str(i))])


def test_sender_is_named_as_the_server_names_it():
	with PROXY.session() as client, CLUSTER.primary.session('app', 'app', 'app-secret') as direct:
		client.sql('listen who')
		pid = int(direct.scalar('select pg_backend_pid()'))
		direct.sql("notify who")
		client.read_until('A', 10)
		equal(decoded(client.notifications[0]), (pid, 'who', ''))


def test_own_notification_is_heard_once_in_front_of_ready_for_query():
	with PROXY.session() as a, PROXY.session() as b:
		for name, request in (
				('NOTIFY', query("notify self, 'x'")),
				('pg_notify()', query("select pg_notify('self', 'x')")),
				('NOTIFY behind LISTEN in a batch', query("listen self; notify self, 'x'")),
				('extended', parse("notify self, 'x'") + bind() + execute() + sync())):
			a.sql('listen self')
			b.sql('listen self')
			a.notifications = []
			found = messages(a, request)
			assert kinds(found).endswith('CAZ'), '%s: %s' % (name, kinds(found))
			equal([decoded(m)[1:] for m in a.notifications], [('self', 'x')], name)
			a.notifications = []
			silent(a)
			equal(heard(b, 1), [('self', 'x')], name + ': another client')


def test_databases_do_not_cross():
	with PROXY.session() as a, PROXY.session(database='app_b') as b:
		a.sql('listen same')
		b.sql('listen same')
		equal(len(listeners()), 2)
		a.sql("notify same, 'a'")
		equal([decoded(m)[2] for m in a.notifications], ['a'])
		b.sql("notify same, 'b'")
		equal([decoded(m)[2] for m in b.notifications], ['b'])


def test_names_of_channels():
	long = 'n' * 70
	for channel, as_sent in (('MixedCase', 'mixedcase'), ('"MixedCase"', 'MixedCase'),
			('"with ""quotes"" and; more"', 'with "quotes" and; more'), (long, long[:63]),
			('"ü€"', 'ü€')):
		with PROXY.session() as client:
			client.sql('listen ' + channel)
			client.sql("notify %s, 'p'" % channel)
			equal([decoded(m)[1] for m in client.notifications], [as_sent])
			client.notifications = []
			client.sql('unlisten ' + channel)
			client.sql("notify %s, 'p'" % channel)
			silent(client)


def test_long_payloads_and_many_of_them():
	with PROXY.session() as client, PROXY.session() as other:
		client.sql('listen big')
		payloads = ['%d %s' % (i, 'y' * 1900) for i in range(30)]
		other.sql('begin')
		for payload in payloads:
			other.sql("notify big, '%s'" % payload)
		other.sql('commit')
		equal([p for _, p in heard(client, 30)], payloads)


def test_notification_comes_in_the_clients_encoding():
	with PROXY.session(client_encoding='LATIN1') as client, PROXY.session() as other:
		client.sql('listen enc')
		other.sql("notify enc, 'grün'")
		client.read_until('A', 10)
		assert client.notifications[0].endswith('grün'.encode('latin-1') + b'\0')


# ---- when LISTEN and UNLISTEN hold ----

def test_listen_in_a_transaction_holds_from_its_commit():
	for begin, listen, end, hears in (
			('begin', 'listen tx', 'commit', True),
			('begin', 'listen tx', 'rollback', False),
			('begin', 'listen tx; select 1', 'end', True),
			('begin', 'savepoint a; listen tx; rollback to a', 'commit', False),
			('begin', 'savepoint a; listen tx; release a', 'commit', True),
			('begin; listen tx', 'select 1', 'commit', True),
			('begin; listen tx; commit', 'select 1', 'select 2', True),
			('begin', 'listen tx; unlisten tx', 'commit', False),
			('begin', 'unlisten tx; listen tx', 'commit', True),
			('select 1', "select hears('tx')", 'select 1', True),
			('select 1', "do $$ begin execute 'listen tx'; end $$", 'select 1', True)):
		what = '%s / %s / %s' % (begin, listen, end)
		with PROXY.session() as client, PROXY.session() as other:
			for statement in (begin, listen, end):
				client.sql(statement)
			equal(pin(client), None, what)
			other.sql("notify tx, 'now'")
			if hears:
				equal(heard(client, 1), [('tx', 'now')], what)
			silent(client)


def test_unlisten_holds_from_its_commit():
	for steps, hears in (
			(['unlisten u'], False), (['unlisten *'], False), (['discard all'], False),
			(['begin', 'unlisten u', 'rollback'], True), (['begin', 'unlisten *', 'commit'], False),
			(['begin', 'unlisten u', 'listen u', 'commit'], True),
			(['begin', 'savepoint a', 'unlisten u', 'rollback to a', 'commit'], True),
			(['begin; unlisten *; rollback'], True), (['unlisten u; select 1/0'], True),
			(['listen v; unlisten u; select 1'], False), (['unlisten other'], True)):
		with PROXY.session() as client, PROXY.session() as other:
			client.sql('listen u')
			for step in steps:
				client.send(query(step))
				client.read_ready()
			equal(pin(client), None, str(steps))
			other.sql("notify u, '1'")
			if hears:
				equal(heard(client, 1), [('u', '1')], str(steps))
			silent(client)


def test_channels_are_shown():
	with PROXY.session() as client, PROXY.session() as other:
		client.sql('listen "Shown"')
		client.sql('listen too')
		equal(sorted(r[0] for r in client.sql('select pg_listening_channels()').rows),
			['Shown', 'too'])
		equal(pin(client), None)
		equal(other.sql('select pg_listening_channels()').rows, [])
		other.sql("notify too, 'once'")
		equal(heard(client, 1), [('too', 'once')])
		silent(client)


def test_extended_protocol_and_pipelines():
	with PROXY.session() as client, PROXY.session() as other:
		found = messages(client, parse('listen ext') + bind() + describe('P') + execute() + sync())
		equal(kinds(found), '12nCZ')
		found = messages(client, parse('begin') + bind() + execute() + parse('listen ext2') + bind() +
			execute() + parse('commit') + bind() + execute() + sync())
		equal(kinds(found), '12C12C12CZ')
		other.sql("notify ext, 'a'")
		other.sql("notify ext2, 'b'")
		equal(heard(client, 2), [('ext', 'a'), ('ext2', 'b')])


# ---- when it is told ----

def test_nothing_is_told_inside_a_transaction():
	with PROXY.session() as client, PROXY.session() as other:
		client.sql('listen quiet')
		client.sql('begin')
		other.sql("notify quiet, 'kept'")
		for _ in range(3):
			client.sql('select 1')
		equal(client.notifications, [])
		expect_error('22012', client.sql, 'select 1/0')
		equal(client.notifications, [])
		found = messages(client, query('rollback'))
		equal(kinds(found), 'CAZ')


def test_nothing_is_told_inside_an_answer():
	with PROXY.session() as client, PROXY.session() as other:
		client.sql('listen quiet')
		client.send(query("select pg_sleep(0.3), repeat('x', 1000) from generate_series(1, 3)"))
		for i in range(10):
			other.sql("notify quiet, '%d'" % i)
		found = kinds(client.read_ready(20))
		equal(found, 'TDDDC' + 'A' * 10 + 'Z')


def test_trigger_tells_who_waits():
	with PROXY.session() as client, PROXY.session() as other:
		client.sql('listen jobs')
		other.sql('insert into jobs select generate_series(1, 5)')
		equal(heard(client, 5), [('jobs', str(i)) for i in range(1, 6)])


# ---- losses and limits ----

def test_lost_listener_listens_again():
	with PROXY.session() as client, PROXY.session() as other:
		client.sql('listen back')
		CLUSTER.primary.sql("select pg_terminate_backend(pid) from pg_stat_activity"
			" where application_name = 'polar-proxy listen'")

		def hears():
			other.sql("notify back, 'x'")
			client.sql('select 1')
			return client.notifications
		eventually(hears, 20, 'notifications after the loss')
		assert 'listens again' in PROXY.log()


def test_listener_follows_the_writer():
	with Cluster('stock', 1) as cluster:
		with Proxy(cluster, workers=2, variables={'monitor_ping_interval': 200,
				'monitor_read_only_interval': 100}) as proxy:
			replica = cluster.replicas[0]
			with proxy.session() as client:
				client.sql('listen moved')
				cluster.primary.kill9()
				replica.promote()
				eventually(lambda: (10, replica.port) in proxy.online(), 30, 'the new writer')

				def hears():
					replica.sql("notify moved, 'x'", 'app')
					client.sql('select 1')
					return client.notifications
				eventually(hears, 30, 'notifications of the new writer')
				equal(len(set(client.notifications)), len(client.notifications))


def test_client_without_a_listener_keeps_its_connection():
	# No login for another connection: the session listens by its own, and says so.
	CLUSTER.primary.sql('create role lone login password $$lone$$ connection limit 1', 'app')
	with Proxy(CLUSTER, servers=_servers(), workers=1, users=[{'username': 'lone',
			'password': 'lone', 'default_hostgroup': 10}]) as proxy:
		with proxy.session('lone', 'lone') as client:
			client.sql('listen alone')
			row = proxy.admin('select pin_reasons from stats_pgsql_processlist where user = $$lone$$'
				.replace('$$', "'")).rows[0]
			assert row[0], row
			CLUSTER.primary.sql("notify alone, 'x'", 'app')
			equal(heard(client, 1), [('alone', 'x')])
			client.sql('unlisten alone')
			silent(client)


def test_client_that_does_not_read_is_closed():
	with PROXY.session() as client, PROXY.session() as other:
		client.sql('listen flood')
		client.sql('begin')
		for _ in range(40):
			other.sql("notify flood, '%s'" % ('z' * 4000 + str(_)))
		ended = client.read_all(20)
		equal(wire.error_fields(ended[-1][1])['C'], '54000')
		silent(other)


def test_client_that_leaves_is_forgotten():
	client = PROXY.session()
	client.sql('listen gone')
	client.close(polite=False)
	with PROXY.session() as other:
		other.sql("notify gone, 'x'")
		# Nobody is left, so the server connection is given up in time.
	eventually(lambda: not listeners(), 40, 'end of the listening connection')


def test_listening_clients_are_cheap():
	count = 2000
	clients = []

	def start(part):
		for _ in range(count // 4):
			client = PROXY.session()
			client.sql('listen crowd')
			part.append(client)
	parts = [[] for _ in range(4)]
	before = PROXY.rss_kb()
	in_threads([lambda p=p: start(p) for p in parts], 150)
	clients = [c for p in parts for c in p]
	grown = PROXY.rss_kb() - before
	print('# %d listening clients: %.1f KiB each' % (count, grown / count))
	assert grown < PROXY.may_grow_kb(count * 14 / 1024), grown
	with PROXY.session() as other:
		other.sql("notify crowd, 'hello'")
	for client in clients:
		equal(heard(client, 1), [('crowd', 'hello')])
	for client in clients:
		client.close()


if __name__ == '__main__':
	sys.exit(runner.main(globals()))
