"""A raw PostgreSQL wire client (protocol 3): sends any bytes, reads messages with a deadline.

For tests that care about messages, not rows: `Wire` gives both sides of the conversation, and
`transcript()` turns messages into comparable text. `Wire.sql()` is the short way for ordinary
queries.
"""
import hashlib
import socket
import ssl
import struct
import time

from . import scram

PROTOCOL_3_0 = 196608
PROTOCOL_3_2 = 196610
SSL_REQUEST = 80877103
GSS_REQUEST = 80877104
CANCEL_REQUEST = 80877102

_ERROR_FIELDS = {'S': 'severity', 'V': 'severity_nonlocalized', 'C': 'sqlstate', 'M': 'message',
	'D': 'detail', 'H': 'hint', 'P': 'position', 'W': 'where'}


class WireError(Exception):
	"""An ErrorResponse; .sqlstate, .message, .fields."""

	def __init__(self, fields):
		super().__init__('%s %s' % (fields.get('C'), fields.get('M')))
		self.fields = fields
		self.sqlstate = fields.get('C')
		self.message = fields.get('M')
		self.severity = fields.get('V') or fields.get('S')


class Closed(Exception):
	"""The peer closed the connection where a message was expected."""


class Timeout(Exception):
	"""No complete message before the deadline."""


class Result:
	"""One statement's outcome. Rows hold text (or None for NULL)."""

	def __init__(self):
		self.columns = []
		self.rows = []
		self.tag = None
		self.error = None

	@property
	def scalar(self):
		return self.rows[0][0]


# ---- building messages ------------------------------------------------------------------------

def frame(kind, body=b''):
	return kind.encode('latin-1') + struct.pack('!I', len(body) + 4) + body


def cstr(text):
	return (text if isinstance(text, bytes) else text.encode()) + b'\0'


def startup(params, version=PROTOCOL_3_0):
	body = struct.pack('!I', version)
	for key, value in params.items():
		body += cstr(key) + cstr(value)
	body += b'\0'
	return struct.pack('!I', len(body) + 4) + body


def query(sql):
	return frame('Q', cstr(sql))


def parse(sql, name='', types=()):
	return frame('P', cstr(name) + cstr(sql) + struct.pack('!H', len(types)) +
		b''.join(struct.pack('!I', t) for t in types))


def bind(values=(), statement='', portal='', formats=(), result_formats=()):
	body = cstr(portal) + cstr(statement)
	body += struct.pack('!H', len(formats)) + b''.join(struct.pack('!H', f) for f in formats)
	body += struct.pack('!H', len(values))
	for value in values:
		if value is None:
			body += struct.pack('!i', -1)
		else:
			data = value if isinstance(value, bytes) else str(value).encode()
			body += struct.pack('!i', len(data)) + data
	body += struct.pack('!H', len(result_formats))
	body += b''.join(struct.pack('!H', f) for f in result_formats)
	return frame('B', body)


def describe(what='S', name=''):
	return frame('D', what.encode() + cstr(name))


def execute(portal='', max_rows=0):
	return frame('E', cstr(portal) + struct.pack('!I', max_rows))


def close(what='S', name=''):
	return frame('C', what.encode() + cstr(name))


def sync():
	return frame('S')


def flush():
	return frame('H')


def terminate():
	return frame('X')


def copy_data(data):
	return frame('d', data)


def copy_done():
	return frame('c')


def copy_fail(text):
	return frame('f', cstr(text))


def cancel_request(pid, key, code=CANCEL_REQUEST):
	"""key: bytes of any length, or the 4 bytes of protocol 3.0 as a number."""
	if isinstance(key, int):
		key = struct.pack('!I', key & 0xffffffff)
	return struct.pack('!III', 12 + len(key), code, pid & 0xffffffff) + key


# ---- reading messages -------------------------------------------------------------------------

def error_fields(body):
	fields = {}
	for part in body.split(b'\0'):
		if part:
			fields[chr(part[0])] = part[1:].decode('utf-8', 'replace')
	return fields


def row_values(body):
	count, = struct.unpack_from('!H', body)
	at, values = 2, []
	for _ in range(count):
		size, = struct.unpack_from('!i', body, at)
		at += 4
		if size < 0:
			values.append(None)
		else:
			values.append(body[at:at + size])
			at += size
	return values


def column_names(body):
	count, = struct.unpack_from('!H', body)
	at, names = 2, []
	for _ in range(count):
		end = body.index(b'\0', at)
		names.append(body[at:end].decode())
		at = end + 1 + 18
	return names


def _columns_text(body):
	"""RowDescription as text. Object ids of tables made by the script differ between two runs."""
	count, = struct.unpack_from('!H', body)
	at, parts = 2, []
	for _ in range(count):
		end = body.index(b'\0', at)
		table, column, kind, size, modifier, code = struct.unpack_from('!IHIhiH', body, end + 1)
		table = 'table' if table >= 16384 else table
		parts.append('%s %s.%s type %s size %s mod %s format %s' % (
			body[at:end].decode(), table, column, kind, size, modifier, code))
		at = end + 1 + 18
	return '; '.join(parts)


def transcript(messages):
	"""Messages as text, one a line. What must differ is masked: cancel keys, ids of new tables."""
	lines = []
	for kind, body in messages:
		if kind == 'K':
			lines.append('K ...')
		elif kind in 'EN':
			fields = error_fields(body)
			lines.append(kind + ' ' + ' '.join('%s=%r' % (k, fields[k]) for k in sorted(fields)))
		elif kind == 'D':
			lines.append('D %r' % (row_values(body),))
		elif kind == 'T':
			lines.append('T ' + _columns_text(body))
		else:
			lines.append('%s %r' % (kind, body))
	return '\n'.join(lines)


def _results(messages):
	results, current = [], Result()
	for kind, body in messages:
		if kind == 'T':
			current.columns = column_names(body)
		elif kind == 'D':
			current.rows.append(
				tuple(None if v is None else v.decode('utf-8', 'replace')
					for v in row_values(body)))
		elif kind == 'C':
			current.tag = body[:-1].decode()
			results.append(current)
			current = Result()
		elif kind == 'I':
			current.tag = ''
			results.append(current)
			current = Result()
		elif kind == 'E':
			current.error = WireError(error_fields(body))
			results.append(current)
			current = Result()
	return results


class Wire:
	"""One connection. address is (host, port) or the path of a Unix socket."""

	def __init__(self, address, timeout=10.0):
		self.address = address
		self.timeout = timeout
		self.buffer = bytearray()
		self.parameters = {}
		self.pid = self.key = 0
		self.secret = b''
		self.version = PROTOCOL_3_0
		self.status = None
		self.notices = []
		self.notifications = []
		self.sent = self.received = 0
		family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
		self.sock = socket.socket(family, socket.SOCK_STREAM)
		self.sock.settimeout(timeout)
		self.sock.connect(address)
		if family == socket.AF_INET:
			self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

	def __enter__(self):
		return self

	def __exit__(self, *unused):
		self.close()

	# -- bytes

	def send(self, data):
		self.sock.settimeout(self.timeout)
		self.sock.sendall(data)
		self.sent += len(data)

	def _fill(self, deadline):
		left = deadline - time.monotonic()
		if left <= 0:
			raise Timeout('no message within the time limit')
		self.sock.settimeout(left)
		try:
			data = self.sock.recv(65536)
		except socket.timeout as e:
			raise Timeout('no message within the time limit') from e
		except OSError as e:
			raise Closed(str(e)) from e
		if not data:
			raise Closed('connection closed by the peer')
		self.received += len(data)
		self.buffer += data

	def read_bytes(self, count, timeout=None):
		deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
		while len(self.buffer) < count:
			self._fill(deadline)
		data = bytes(self.buffer[:count])
		del self.buffer[:count]
		return data

	def read_message(self, timeout=None):
		"""The next message as (type letter, body)."""
		deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
		while len(self.buffer) < 5:
			self._fill(deadline)
		size, = struct.unpack_from('!I', self.buffer, 1)
		while len(self.buffer) < 1 + size:
			self._fill(deadline)
		kind = chr(self.buffer[0])
		body = bytes(self.buffer[5:1 + size])
		del self.buffer[:1 + size]
		self._note(kind, body)
		return kind, body

	def _note(self, kind, body):
		if kind == 'S':
			name, value, _ = body.split(b'\0', 2)
			self.parameters[name.decode()] = value.decode()
		elif kind == 'K':
			self.pid, self.key = struct.unpack('!II', body[:8])
			self.secret = body[4:]
		elif kind == 'Z':
			self.status = chr(body[0])
		elif kind == 'N':
			self.notices.append(error_fields(body))
		elif kind == 'A':
			self.notifications.append(body)

	def read_until(self, kinds, timeout=None):
		"""Messages up to and including the first whose type is in kinds."""
		deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
		messages = []
		while True:
			message = self.read_message(deadline - time.monotonic())
			messages.append(message)
			if message[0] in kinds:
				return messages

	def read_ready(self, timeout=None):
		return self.read_until('Z', timeout)

	def read_all(self, timeout=None):
		"""Messages until the peer closes."""
		messages = []
		try:
			while True:
				messages.append(self.read_message(timeout))
		except Closed:
			return messages

	def closed_by_peer(self, timeout=5.0):
		try:
			self.read_all(timeout)
			return True
		except Timeout:
			return False

	# -- login

	def start_tls(self, context=None):
		self.send(struct.pack('!II', 8, SSL_REQUEST))
		answer = self.read_bytes(1)
		if answer != b'S':
			raise WireError({'C': '08P01', 'M': 'TLS refused: %r' % answer})
		if context is None:
			context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
			context.check_hostname = False
			context.verify_mode = ssl.CERT_NONE
		self.sock.settimeout(self.timeout)
		self.sock = context.wrap_socket(self.sock)

	def login(self, user, password=None, database=None, **params):
		"""Startup and authentication; returns all messages up to ReadyForQuery."""
		settings = {'user': user, 'database': database or user}
		settings.update(params)
		self.send(startup(settings, self.version))
		messages = []
		exchange = None
		while True:
			kind, body = self.read_message()
			messages.append((kind, body))
			if kind == 'E':
				raise WireError(error_fields(body))
			if kind == 'Z':
				return messages
			if kind != 'R':
				continue
			exchange = self._authenticate(body, user, password, exchange)

	def _authenticate(self, body, user, password, exchange):
		code, = struct.unpack_from('!I', body)
		secret = (password or '').encode()
		if code == 3:
			self.send(frame('p', secret + b'\0'))
		elif code == 5:
			inner = hashlib.md5(secret + user.encode()).hexdigest().encode()
			self.send(frame('p', b'md5' + hashlib.md5(inner + body[4:8]).hexdigest().encode() +
				b'\0'))
		elif code == 10:
			exchange = scram.Client(password or '')
			first = exchange.first_message()
			self.send(frame('p', cstr('SCRAM-SHA-256') + struct.pack('!I', len(first)) + first))
		elif code == 11:
			self.send(frame('p', exchange.final_message(body[4:])))
		elif code == 12:
			exchange.verify(body[4:])
		return exchange

	# -- queries

	def execute(self, sql, timeout=None):
		"""One Query message; the Results, errors kept in them."""
		self.send(query(sql))
		return _results(self.read_ready(timeout))

	def sql(self, sql, timeout=None):
		"""One Query message; the last Result. Raises WireError for the first error."""
		results = self.execute(sql, timeout)
		for result in results:
			if result.error:
				raise result.error
		return results[-1] if results else Result()

	def scalar(self, sql, timeout=None):
		return self.sql(sql, timeout).scalar

	def extended(self, sql, values=(), timeout=None):
		"""Parse, Bind, Describe, Execute, Sync with text parameters; the Result."""
		self.send(parse(sql) + bind(values) + describe('P') + execute() + sync())
		results = _results(self.read_ready(timeout))
		for result in results:
			if result.error:
				raise result.error
		return results[-1] if results else Result()

	def cancel(self, timeout=5.0):
		"""Sends a CancelRequest for this session over a connection of its own."""
		with Wire(self.address, timeout) as other:
			other.send(cancel_request(self.pid, self.secret))
			other.closed_by_peer(timeout)

	def close(self, polite=True):
		if polite:
			try:
				self.send(terminate())
			except (OSError, ValueError):
				pass
		self.sock.close()

	def abort(self):
		"""Closes with a TCP reset."""
		self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
		self.sock.close()


def connect(address, user, password=None, database=None, timeout=10.0, tls=False, **params):
	"""A logged-in Wire."""
	wire = Wire(address, timeout)
	try:
		if tls:
			wire.start_tls()
		wire.login(user, password, database, **params)
	except BaseException:
		wire.close(polite=False)
		raise
	return wire


def run_script(wire, steps, timeout=10.0):
	"""Plays a client script: bytes are sent; an int n reads up to and including n ReadyForQuery.

	Returns all messages read. The script is the same for the server and the proxy, which makes the
	two transcripts comparable.
	"""
	messages = []
	for step in steps:
		if isinstance(step, int):
			for _ in range(step):
				messages += wire.read_ready(timeout)
		elif isinstance(step, str):
			messages += wire.read_until(step, timeout)
		else:
			wire.send(step)
	return messages
