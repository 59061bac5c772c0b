#!/usr/bin/python3
"""Large things pass through: the proxy's memory stays small, whatever the size, and time grows with
the size, not faster. POLAR_LARGE=full runs the full sizes (1 GiB, 100 MiB values, 2 million rows).
"""
import os
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import runner  # noqa: E402
from checks import equal, expect_error  # noqa: E402
from cluster import Cluster, Proxy, eventually, wire  # noqa: E402
from cluster.proxy import is_instrumented  # noqa: E402
from cluster.wire import bind, copy_done, execute, frame, parse, query, sync  # noqa: E402
from fault_proxy import FaultProxy  # noqa: E402

TIMEOUT = 900
FULL = os.environ.get('POLAR_LARGE') == 'full'
MIB = 1 << 20
STREAM = (1024 if FULL else 96) * MIB  # a result, a COPY
VALUE = (100 if FULL else 80) * MIB  # one value: more than the memory that is allowed
ROWS = 2_000_000 if FULL else 300_000
MAX_MEMORY = 64 * MIB
CLUSTER = PROXY = None


def setup():
	global CLUSTER, PROXY
	CLUSTER = Cluster('stock', 0)
	CLUSTER.primary.sql('create table t (v text); grant all on t to app;'
		'alter table t set (autovacuum_enabled = off)', 'app')
	PROXY = Proxy(CLUSTER, pair=None, workers=2, variables={'max_allowed_packet': 256 * MIB,
		'authentication_method': 1})


def teardown():
	PROXY.stop()
	CLUSTER.close()


# ---- measuring ----

class bounded_memory:
	"""The highest memory of the proxy during the block is at most MAX_MEMORY."""

	def __init__(self, what, limit=MAX_MEMORY):
		self.what, self.limit = what, limit

	def __enter__(self):
		with open('/proc/%d/clear_refs' % PROXY.proc.pid, 'w', encoding='ascii') as f:
			f.write('5')
		self.cpu, self.start = PROXY.cpu_seconds(), time.monotonic()

	def __exit__(self, kind, *unused):
		if kind is not None:
			return
		with open('/proc/%d/status' % PROXY.proc.pid, encoding='ascii') as f:
			peak = next(int(line.split()[1]) * 1024 for line in f if line.startswith('VmHWM'))
		print('# %-44s peak %5.1f MiB, %5.1f s, CPU %5.1f s' % (self.what, peak / MIB,
			time.monotonic() - self.start, PROXY.cpu_seconds() - self.cpu), flush=True)
		if not is_instrumented():
			assert peak <= self.limit, '%s: %.1f MiB of memory' % (self.what, peak / MIB)


def connect(tls):
	return wire.connect(PROXY.address, 'app', 'app-secret', 'app', timeout=300, tls=tls)


class Counting_Reader:
	"""Reads messages without keeping rows: [(kind, count, bytes)] up to ReadyForQuery."""

	def __init__(self, session, pause=0.0, part=MIB):
		self.session, self.pause, self.part = session, pause, part
		self.left = 0  # of the message under way
		self.head = bytearray()
		self.counts, self.sizes = {}, {}
		self.errors = []

	def until_ready(self):
		buffer = bytearray(self.part)
		while 'Z' not in self.counts:
			got = self.session.sock.recv_into(buffer)
			assert got, 'closed after %r' % self.counts
			self._take(memoryview(buffer)[:got])
			if self.pause:
				time.sleep(self.pause)
		return self.counts

	def _take(self, data):
		at = 0
		while at < len(data):
			if self.left:
				step = min(self.left, len(data) - at)
				if self.kind == 'E':
					self.errors[-1] += bytes(data[at:at + step])
				self.left -= step
				at += step
				continue
			step = min(5 - len(self.head), len(data) - at)
			self.head += data[at:at + step]
			at += step
			if len(self.head) == 5:
				self.kind = chr(self.head[0])
				self.left = struct.unpack('!I', self.head[1:])[0] - 4
				self.counts[self.kind] = self.counts.get(self.kind, 0) + 1
				self.sizes[self.kind] = self.sizes.get(self.kind, 0) + self.left
				self.head.clear()
				if self.kind == 'E':
					self.errors.append(b'')


def read(session, **how):
	reader = Counting_Reader(session, **how)
	reader.until_ready()
	assert not reader.errors, reader.errors
	return reader


def both(check):
	"""Plain and TLS."""
	for tls in (False, True):
		check(tls, 'TLS' if tls else 'plain')


# ---- results ----

def test_a_large_result():
	def check(tls, kind):
		with connect(tls) as session, bounded_memory('result, ' + kind):
			session.send(query("select repeat('x', 1048576) from generate_series(1, %d)" %
				(STREAM // MIB)))
			equal(read(session).sizes['D'], STREAM + 6 * (STREAM // MIB))
	both(check)


def test_a_large_result_for_a_client_that_reads_slowly():
	size = 24 * MIB

	def check(tls, kind):
		with connect(tls) as session, bounded_memory('result, slow client, ' + kind):
			session.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 * 1024)
			session.send(query("select repeat('x', 1000) from generate_series(1, %d)" %
				(size // 1000)))
			equal(read(session, pause=0.005, part=128 * 1024).counts['D'], size // 1000)
	both(check)


def test_many_tiny_rows():
	def check(tls, kind):
		with connect(tls) as session, bounded_memory('%d rows, %s' % (ROWS, kind)):
			before = PROXY.cpu_seconds()
			session.send(query('select i from generate_series(1, %d) i' % ROWS))
			messages = session.read_ready(300)
			equal(sum(k == 'D' for k, _ in messages), ROWS)
			used = PROXY.cpu_seconds() - before
			if not is_instrumented():
				assert used < 0.1 + ROWS / 1e6, 'CPU: %.2f s' % used
	both(check)


def test_a_large_value_in_a_result():
	def check(tls, kind):
		with connect(tls) as session, bounded_memory('one value, ' + kind):
			session.send(query("select repeat('x', %d)" % VALUE))
			equal(read(session).sizes['D'], VALUE + 6)
		with connect(tls) as session, bounded_memory('one value, extended, ' + kind):
			session.send(parse("select repeat('x', $1::int)") + bind([VALUE]) + execute() + sync())
			equal(read(session).sizes['D'], VALUE + 6)
	both(check)


# ---- from the client ----

def new_server_connections():
	CLUSTER.primary.terminate_backends(user='app')
	eventually(lambda: CLUSTER.primary.backends(user='app') == 0, 10, 'no old server connection')


def send_zeros(session, count, letter=b'x'):
	part = letter * MIB
	while count > 0:
		session.send(part[:min(count, MIB)])
		count -= MIB


def bind_head(size, statement=''):
	"""A Bind with one text value of that size, without the value."""
	body = wire.cstr('') + wire.cstr(statement) + struct.pack('!HHi', 0, 1, size)
	return b'B' + struct.pack('!I', 4 + len(body) + size + 2) + body


def test_a_large_value_as_a_parameter():
	def check(tls, kind):
		with connect(tls) as session, bounded_memory('parameter, ' + kind):
			session.send(parse('select length($1::text)') + bind_head(VALUE))
			send_zeros(session, VALUE)
			session.send(struct.pack('!H', 0) + execute() + sync())
			messages = session.read_ready(300)
			equal([k for k, _ in messages], list('12DCZ'))
			equal(wire.row_values(messages[2][1]), [str(VALUE).encode()])
			# The connection is in step.
			equal(session.scalar('select 1'), '1')
	both(check)


def test_a_large_value_for_a_named_statement():
	"""Its name is another one on the server: the front of the message is rewritten, the rest goes
	through as it comes; also when the server connection has not got the statement."""
	with connect(False) as session:
		session.send(parse('select length($1::text)', 'named') + sync())
		equal([k for k, _ in session.read_ready()], ['1', 'Z'])
		new_server_connections()
		with bounded_memory('parameter, named statement'):
			for _ in range(2):
				session.send(bind_head(VALUE, 'named'))
				send_zeros(session, VALUE)
				session.send(struct.pack('!H', 0) + execute() + sync())
				messages = session.read_ready(300)
				equal([k for k, _ in messages], list('2DCZ'))
				equal(wire.row_values(messages[1][1]), [str(VALUE).encode()])


def test_a_large_value_behind_other_messages_of_a_pipeline():
	with connect(False) as session, bounded_memory('parameter in a pipeline'):
		session.send(parse('select $1::int + 1', 'small') + bind([1], 'small') + execute() +
			parse('select length($1::text)') + bind_head(VALUE))
		send_zeros(session, VALUE)
		session.send(struct.pack('!H', 0) + execute() + bind([2], 'small') + execute() + sync())
		messages = session.read_ready(300)
		equal([k for k, _ in messages], list('12DC12DC2DCZ'))
		equal([wire.row_values(b)[0] for k, b in messages if k == 'D'],
			[b'2', str(VALUE).encode(), b'3'])


def test_a_long_pipeline_on_a_new_server_connection():
	"""More than is kept for a client that waits, and a server that says nothing before the Sync."""
	new_server_connections()
	with connect(False) as session, bounded_memory('pipeline'):
		part = parse('select $1::text') + bind(['x' * 4000]) + execute()
		session.send(part * 1000 + sync())
		equal(read(session, part=65536).counts, {'1': 1000, '2': 1000, 'D': 1000, 'C': 1000, 'Z': 1})


def test_a_large_value_of_a_statement_that_fails():
	"""The server reads the whole message before it says so; what follows is skipped to Sync."""
	with connect(False) as session, bounded_memory('parameter, unknown statement'):
		session.send(bind_head(VALUE, 'nothing'))
		send_zeros(session, VALUE)
		session.send(struct.pack('!H', 0) + execute() + sync())
		messages = session.read_ready(300)
		equal([(k, wire.error_fields(b)['C']) if k == 'E' else k for k, b in messages],
			[('E', '26000'), 'Z'])
		session.send(parse('select 1/(random() * 0)::int') + bind() + execute() +
			parse('select length($1::text)') +
			bind_head(VALUE))
		send_zeros(session, VALUE)
		session.send(struct.pack('!H', 0) + execute() + sync())
		messages = session.read_ready(300)
		equal([(k, wire.error_fields(b)['C']) if k == 'E' else k for k, b in messages],
			['1', '2', ('E', '22012'), 'Z'])
		equal(session.scalar('select 1'), '1')


def test_a_large_message_without_a_server():
	"""No server in time: the error comes, and the rest of the message is not taken for messages."""
	PROXY.admin("update pgsql_servers set status = 'OFFLINE_HARD'")
	PROXY.admin("set pgsql-connect_timeout_server_max = 300")
	PROXY.admin('load pgsql variables to runtime')
	PROXY.admin('load pgsql servers to runtime')
	try:
		with connect(False) as session, bounded_memory('statement without a server'):
			session.send(b'Q' + struct.pack('!I', 4 + VALUE + 1) + b'select 1 --')
			send_zeros(session, VALUE - len('select 1 --'))
			session.send(b'\0')
			messages = session.read_ready(60)
			equal([(k, wire.error_fields(b)['C']) if k == 'E' else k for k, b in messages],
				[('E', '08001'), 'Z'])
			PROXY.admin("update pgsql_servers set status = 'ONLINE'")
			PROXY.admin('load pgsql servers to runtime')
			equal(session.scalar('select 1'), '1')
	finally:
		PROXY.admin("update pgsql_servers set status = 'ONLINE'")
		PROXY.admin("set pgsql-connect_timeout_server_max = 10000")
		PROXY.admin('load pgsql variables to runtime')
		PROXY.admin('load pgsql servers to runtime')


def test_a_large_statement():
	size = 20 * MIB

	def check(tls, kind):
		with connect(tls) as session:
			with bounded_memory('20 MiB statement, ' + kind):
				session.send(query("select length('%s')" % ('x' * size)))
				equal(wire._results(session.read_ready(120))[0].rows, [(str(size),)])
			# Three times: as it came, to be run again; its text, to be prepared elsewhere; on its way.
			with bounded_memory('20 MiB statement, extended, ' + kind, MAX_MEMORY + 3 * size // 2):
				equal(session.extended("select length('%s')" % ('x' * size)).rows, [(str(size),)])
			equal(session.scalar('select 1'), '1')
	both(check)


def test_a_large_statement_in_a_transaction():
	with connect(False) as session:
		session.sql('begin')
		session.send(query("insert into t select 'large statement' where length('%s') > 0" %
			('x' * 4 * MIB)))
		equal([k for k, _ in session.read_ready(60)], ['C', 'Z'])
		equal(session.status, 'T')
		equal(session.scalar("select count(*) from t where v = 'large statement'"), '1')
		session.sql('rollback')
		equal(session.scalar("select count(*) from t where v = 'large statement'"), '0')


def test_a_client_that_vanishes_in_a_large_message():
	session = connect(False)
	session.send(b'Q' + struct.pack('!I', 4 + VALUE + 1) + b"insert into t values ('half"
		+ b'x' * (3 * MIB))
	eventually(lambda: CLUSTER.primary.backends(user='app') > 0, what='a server connection')
	session.abort()
	eventually(lambda: PROXY.admin_scalar('select sum(ConnUsed) from stats_pgsql_connection_pool')
		== '0', 10, 'the slot to be free')
	equal(CLUSTER.primary.sql("select count(*) from t where v like 'half%'", 'app').scalar, '0')
	with connect(False) as other:
		equal(other.scalar('select 1'), '1')


def test_as_many_parameters_as_there_can_be():
	count = 32767
	places = ', '.join('($%d::int)' % (i + 1) for i in range(count))
	with connect(False) as session, bounded_memory('%d parameters' % count):
		session.send(parse('select sum(i), count(*) from (values %s) v(i)' % places, 'many') +
			bind(['%d' % i for i in range(count)], 'many') + execute() + sync())
		messages = session.read_ready(120)
		equal([k for k, _ in messages], list('12DCZ'))
		equal(wire.row_values(messages[2][1]), [b'%d' % sum(range(count)), b'%d' % count])


def test_a_message_above_the_limit_is_refused():
	with connect(False) as session:
		session.send(b'Q' + struct.pack('!I', 300 * MIB) + b'select 1')
		messages = session.read_all(10)
		equal([wire.error_fields(b)['C'] for k, b in messages if k == 'E'], ['54000'])


# ---- COPY ----

def copy_in(session, size, rows_of=1000):
	line = b'x' * (rows_of - 1) + b'\n'
	part = b''.join(frame('d', line * 60) for _ in range(17))
	each = 17 * 60
	for _ in range(size // (each * rows_of)):
		session.send(part)
	session.send(copy_done())
	return size // (each * rows_of) * each


def test_copy_in_and_out():
	def check(tls, kind):
		with connect(tls) as session:
			session.sql('truncate t')
			with bounded_memory('COPY IN, ' + kind):
				session.send(query('copy t from stdin'))
				session.read_until('G')
				rows = copy_in(session, STREAM)
				messages = session.read_ready(300)
				equal(messages[0], ('C', b'COPY %d\0' % rows))
			with bounded_memory('COPY OUT, ' + kind):
				session.send(query('copy t to stdout'))
				equal(read(session).counts['d'], rows)
			session.sql('truncate t')
	both(check)


def test_copy_in_to_a_server_that_reads_slowly():
	wall = FaultProxy(('127.0.0.1', CLUSTER.primary.port))
	wall.rate_bytes = 40 * MIB
	PROXY.admin("insert into pgsql_servers (hostgroup_id, hostname, port) values"
		" (40, '127.0.0.1', %d)" % wall.port)
	PROXY.admin("update pgsql_users set default_hostgroup = 40 where username = 'app'")
	PROXY.admin('load pgsql servers to runtime')
	PROXY.admin('load pgsql users to runtime')
	try:
		with connect(False) as session, bounded_memory('COPY IN, slow server'):
			session.sql('truncate t')
			session.send(query('copy t from stdin'))
			session.read_until('G')
			rows = copy_in(session, 64 * MIB)
			equal(session.read_ready(300)[0], ('C', b'COPY %d\0' % rows))
			session.sql('truncate t')
	finally:
		PROXY.admin("update pgsql_users set default_hostgroup = 10 where username = 'app'")
		PROXY.admin('delete from pgsql_servers where hostgroup_id = 40')
		PROXY.admin('load pgsql servers to runtime')
		PROXY.admin('load pgsql users to runtime')
		wall.close()


# ---- afterwards ----

def test_time_grows_with_the_size_and_no_faster():
	"""One row of 16 MiB and one of 64 MiB over TLS; BB-134."""
	took = []
	with connect(True) as session:
		for size in (16 * MIB, 64 * MIB):
			before = PROXY.cpu_seconds()
			session.send(query("select repeat('x', %d)" % size))
			read(session)
			took.append(max(PROXY.cpu_seconds() - before, 0.02))
	print('# 16 MiB: %.2f s, 64 MiB: %.2f s of CPU' % tuple(took))
	assert took[1] < 10 * took[0], took


def test_nothing_of_it_is_kept():
	"""Clients that have had one large row each, and stay, cost what idle clients cost; BB-185."""
	clients = [connect(False) for _ in range(40)]
	for session in clients:
		session.sql('select 1')
	before = PROXY.rss_kb()

	def use(session):
		session.send(query("select repeat('x', %d)" % (8 * MIB)))
		read(session)
		session.send(query("select length('%s')" % ('x' * MIB)))
		session.read_ready(60)
		session.send(parse("select length($1::text)", 's') + bind(['x' * MIB], 's') + execute() +
			sync())
		session.read_ready(60)

	for start in range(0, len(clients), 10):
		threads = [threading.Thread(target=use, args=(s,)) for s in clients[start:start + 10]]
		for thread in threads:
			thread.start()
		for thread in threads:
			thread.join(120)
	if not is_instrumented():
		eventually(lambda: PROXY.rss_kb() - before < 12 * 1024, 30,
			'memory of large rows given back')
	print('# grown by %d kB' % (PROXY.rss_kb() - before))
	for session in clients:
		session.close()


if __name__ == '__main__':
	runner.main(globals())
