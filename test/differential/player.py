"""Plays one case against one address and compares what two addresses answered."""
import difflib
import re
import struct

from cluster import wire

STEP_SECONDS = 12.0  # longer than a wait for a server connection
# How long "nothing must come" looks. An answer that comes later shows in the next step.
QUIET_SECONDS = 0.05
# The normalisation rules, all of them (the README explains each):
_PROCESS = re.compile(r'\b([Pp]rocess) \d+')
# Errors that the proxy words itself: its own source place is nobody's business.
_OWN_ERRORS = ('08P01', '26000', '42P05', '57014')
_SOURCE = re.compile(r" [FLR]='[^']*'")


class Player:
	"""connect(**startup parameters) logs one client in."""

	def __init__(self, case, connect):
		self.case = case
		self.connect = connect
		self.clients = {}
		self.lines = []

	def play(self):
		"""The transcript: one line a message, each with its client's letter."""
		try:
			for step in self.case.steps:
				if not self._step(step):
					break
		finally:
			for client in self.clients.values():
				client.close()
		return self.lines

	def _client(self, name):
		if name not in self.clients:
			try:
				self.clients[name] = self.connect(**self.case.clients.get(name, {}))
			except wire.WireError as e:
				self.lines.append('%s login %s' % (name, error_text('E', e.fields)))
				raise _Refused from e
			if self.case.shows_login:
				self.lines += ['%s login %s=%s' % (name, k, v)
					for k, v in sorted(self.clients[name].parameters.items())]
		return self.clients[name]

	def _step(self, step):
		try:
			client = self._client(step.client)
			if step.kind == 'send':
				client.send(step.data)
				for _ in range(step.ready):
					self._read(client, step.client, 'Z')
			elif step.kind == 'read':
				for _ in range(step.count):
					self._read(client, step.client, step.until)
			elif step.kind == 'nothing':
				self._nothing(client, step.client)
			elif step.kind == 'closed':
				self._until_closed(client, step.client)
			elif step.kind == 'leave':
				self.clients.pop(step.client).close()
			return True
		except _Refused:
			return False
		except wire.Timeout:
			self.lines.append('%s (no answer)' % step.client)
		except (wire.Closed, OSError):
			self.lines.append('%s (closed)' % step.client)
		return False

	def _note(self, name, message):
		text = message_text(*message)
		for mask in self.case.masks:
			text = mask.sub('...', text)
		self.lines.append('%s %s' % (name, text))

	def _read(self, client, name, until):
		while True:
			message = client.read_message(STEP_SECONDS)
			self._note(name, message)
			if message[0] in until:
				return

	def _nothing(self, client, name):
		try:
			while True:
				self._note(name, client.read_message(QUIET_SECONDS))
		except wire.Timeout:
			pass

	def _until_closed(self, client, name):
		try:
			while True:
				self._note(name, client.read_message(STEP_SECONDS))
		except wire.Closed:
			self.lines.append('%s closed' % name)


class _Refused(Exception):
	"""A login was refused: the transcript ends with it."""


def error_text(kind, fields):
	return '%s %s' % (kind, ' '.join('%s=%r' % (k, _PROCESS.sub(r'\1 ...', fields[k]))
		for k in sorted(fields)))


def _columns(body):
	count, = struct.unpack_from('!H', body)
	at, parts = 2, []
	for _ in range(count):
		end = body.index(b'\0', at)
		table, column, kind, size, modifier, code = struct.unpack_from('!IHIhiH', body, end + 1)
		parts.append('%r %s.%s type %s size %s mod %s format %s' % (
			body[at:end].decode('utf-8', 'backslashreplace'), _oid(table), column, _oid(kind), size,
			modifier, code))
		at = end + 19
	return '; '.join(parts)


def _oid(number):
	"""Object ids above the catalog's differ from run to run."""
	return 'new' if number >= 16384 else number


def _parameter_types(body):
	count, = struct.unpack_from('!H', body)
	return ' '.join(str(_oid(n)) for n in struct.unpack_from('!%dI' % count, body, 2))


def _long(data):
	"""Large values are shown by both ends and their length."""
	if data is None or len(data) <= 400:
		return repr(data)
	return '%r...%r (%d bytes)' % (data[:100], data[-100:], len(data))


def message_text(kind, body):
	if kind in 'EN':
		return error_text(kind, wire.error_fields(body))
	if kind == 'D':
		return 'D ' + ', '.join(_long(v) for v in wire.row_values(body))
	if kind == 'T':
		return 'T ' + _columns(body)
	if kind == 't':
		return 't ' + _parameter_types(body)
	if kind == 'A':
		return 'A %r' % body[4:]
	return '%s %s' % (kind, _long(body))


def play(case, connect):
	return Player(case, connect).play()


def _difference_text(left, right, what):
	for i in range(max(len(left), len(right))):
		a = left[i] if i < len(left) else '(nothing)'
		b = right[i] if i < len(right) else '(nothing)'
		if a != b:
			return '%s: message %d differs\n  proxy:  %.1500s\n  server: %.1500s\n  before: %s' % (
				what, i + 1, a, b, '\n          '.join(l[:300] for l in right[max(0, i - 4):i]))
	return what + ': equal'


def _explained(server_lines, proxy_lines, pairs, used):
	"""Each server line that changed must fit the left text of a pair, the proxy's the right."""
	for i in range(max(len(server_lines), len(proxy_lines))):
		server = server_lines[i] if i < len(server_lines) else '(nothing)'
		proxy = proxy_lines[i] if i < len(proxy_lines) else '(nothing)'
		fits = [p for p in range(len(pairs)) if pairs[p][0] in server and pairs[p][1] in proxy]
		if not fits:
			return False
		used.add(fits[0])
	return True


def align_own_errors(got, wanted):
	"""An error of the proxy's own (no source place) is compared without the server's."""
	out = list(wanted)
	for i, line in enumerate(wanted[:len(got)]):
		if any(" C='%s'" % c in line for c in _OWN_ERRORS) and not _SOURCE.search(got[i]):
			out[i] = _SOURCE.sub('', line)
	return out


def compare(case, stack, got, wanted, what):
	"""The trouble as text, or None."""
	if any('(no answer)' in line for line in wanted):
		return '%s: the server does not answer a step: %s' % (case.place, wanted[-3:])
	wanted = align_own_errors(got, wanted)
	expected = [d for d in case.differences if stack in d.stacks]
	if not expected:
		return None if got == wanted else _difference_text(got, wanted, what)
	pairs = [pair for d in expected for pair in d.pairs]
	used = set()
	for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, wanted, got, False).get_opcodes():
		if tag != 'equal' and not _explained(wanted[a1:a2], got[b1:b2], pairs, used):
			return _difference_text(got, wanted, what + ': not the difference that is described')
	if len(used) != len(pairs):
		missing = [p for i, p in enumerate(pairs) if i not in used]
		return '%s: no longer differs in this way: %r' % (what, missing)
	return None
