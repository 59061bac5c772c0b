"""Sessions that speak the proxy protocol to a server, and what its ReadyForQuery said."""
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from cluster import wire  # noqa: E402

IDENTITY = {'_polar_proxy_client_host': '127.0.0.1', '_polar_proxy_client_port': '54321'}
TIMEOUT_DETAIL = 'polar_proxy_lsn_wait_timeout'
TIMEOUT_FUNCTION = 'polar_proxy_wait_for_lsn'


class Ready:
	"""A ReadyForQuery body, read by what the session asked for."""

	def __init__(self, body, lsn, xact):
		self.body = body
		self.status = chr(body[0])
		rest = body[1:]
		self.lsn = None
		self.marker = None
		self.xids = None
		if lsn:
			self.lsn, = struct.unpack('!Q', rest[:8])
			rest = rest[8:]
		if xact and rest:
			assert rest[-1] == 0, 'tail without NUL: %r' % body
			self.marker = chr(rest[0])
			self.xids = rest[1:-1].decode('ascii')
			rest = b''
		assert not rest, 'unasked bytes in ReadyForQuery: %r' % body

	@property
	def tail(self):
		"""'x1,733', 'w2,733' or ''."""
		return '' if self.marker is None else self.marker + self.xids

	@property
	def xid_list(self):
		return [int(x) for x in self.xids.split(',')[1:]]


class Answer:
	"""Everything between a request and its ReadyForQuery."""

	def __init__(self, messages, ready):
		self.messages = messages
		self.kinds = ''.join(kind for kind, _ in messages)
		self.ready = ready
		self.results = wire._results(messages)
		self.notices = [wire.error_fields(body) for kind, body in messages if kind == 'N']
		self.errors = [wire.error_fields(body) for kind, body in messages if kind == 'E']
		self.rows = [row for result in self.results for row in result.rows]

	@property
	def error(self):
		return self.errors[0] if self.errors else None

	@property
	def sqlstate(self):
		return self.errors[0]['C'] if self.errors else None

	@property
	def value(self):
		assert not self.errors, self.errors
		return self.rows[-1][0]


class Session:
	"""params are startup parameters; lsn and xact say how ReadyForQuery is to be read."""

	def __init__(self, address, user='postgres', database='postgres', lsn=False, xact=False, **params):
		self.lsn, self.xact = lsn, xact
		self.wire = wire.Wire(address, 60.0)
		try:
			self.login = self.wire.login(user, None, database, **params)
		except BaseException:
			self.wire.close(polite=False)
			raise
		self.first = Ready(self.login[-1][1], lsn, xact)

	def __enter__(self):
		return self

	def __exit__(self, *unused):
		self.wire.close()

	def receive(self, timeout=None):
		messages = self.wire.read_ready(timeout)
		return Answer(messages, Ready(messages[-1][1], self.lsn, self.xact))

	def exchange(self, data, timeout=None):
		self.wire.send(data)
		return self.receive(timeout)

	def run(self, sql, timeout=None):
		"""One Query message; errors are in the answer."""
		return self.exchange(wire.query(sql), timeout)

	def do(self, sql, timeout=None):
		"""One Query message that must not fail."""
		answer = self.run(sql, timeout)
		assert not answer.errors, '%s: %s' % (sql, answer.errors)
		return answer

	def value(self, sql):
		return self.do(sql).value

	def extended(self, sql, values=(), before=b'', timeout=None):
		"""before: frames sent in the same flush, ahead of Parse."""
		return self.exchange(before + wire.parse(sql) + wire.bind(values) + wire.describe('P') +
			wire.execute() + wire.sync(), timeout)


def proxied(node, lsn=True, xact=True, wait=False, user='postgres', **more):
	params = dict(IDENTITY)
	if lsn:
		params['_polar_proxy_send_lsn'] = 'true'
	if xact:
		params['_polar_proxy_send_xact'] = 'true'
	if wait:
		params['_pq_.polar_proxy_wait_v1'] = '1'
	params.update(more)
	return Session(node.address, user, lsn=lsn, xact=xact, **params)


def plain(node, user='postgres', **params):
	return Session(node.address, user, **params)


def wait_message(target, mode=1, timeout_ms=0, version=1, flags=0):
	return wire.frame('W', struct.pack('!BBHIQ', version, mode, flags, timeout_ms, target))
