"""Reads the case files of test/differential/cases; README.md there describes the format."""
import glob
import os
import re
import shlex
import struct

from cluster import wire

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'cases')
STACKS = ('one', 'two', 'split')
_DIRECTIVES = ('case', 'bank', 'setup', 'cleanup', 'needs', 'only', 'client', 'login', 'differs', 'server',
	'proxy', 'mask')
_STEP = re.compile(r'^([a-d]?)(->|-|>>|>|<)(?:\s(.*))?$', re.S)
_MESSAGE = re.compile(r'^([A-Za-z]+)(?:\(([^)]*)\))?(?: (.*))?$', re.S)
_MACRO = re.compile(r'\{\{(\d+)\*(.*?)\}\}', re.S)
_ESCAPES = {'n': b'\n', 't': b'\t', 'r': b'\r', '0': b'\0', '\\': b'\\'}


class Difference:
	"""A difference that is there for a written reason, and how it must look."""

	def __init__(self, stacks, reason):
		self.stacks = stacks
		self.reason = reason
		self.pairs = []  # [text in the server's line, text in the proxy's line]


class Step:
	"""kind: send (data, then `ready` times ReadyForQuery), or read (until one of `until`)."""

	def __init__(self, client, kind, data=b'', ready=0, until='', count=1):
		self.client = client
		self.kind = kind
		self.data = data
		self.ready = ready
		self.until = until
		self.count = count


class Case:
	def __init__(self, theme, name, place):
		self.theme = theme
		self.name = name
		self.place = place
		self.bank = []
		self.setup = []
		self.cleanup = []
		self.masks = []
		self.clients = {}
		self.backends = 1
		self.only = STACKS
		self.shows_login = False
		self.differences = []
		self.steps = []

	@property
	def label(self):
		return '%s_%s' % (self.theme, re.sub(r'[^A-Za-z0-9]+', '_', self.name).strip('_'))

	def runs_on(self, stack, backends):
		return stack in self.only and (self.backends <= backends or stack == 'split')


def _expand(text):
	return _MACRO.sub(lambda m: m.group(2) * int(m.group(1)), text)


def _bytes(text):
	"""Text with \\n, \\t, \\r, \\0, \\\\ and \\xHH."""
	out, at = bytearray(), 0
	while at < len(text):
		if text[at] == '\\' and at + 1 < len(text):
			following = text[at + 1]
			if following == 'x':
				out += bytes([int(text[at + 2:at + 4], 16)])
				at += 4
				continue
			out += _ESCAPES[following]
			at += 2
			continue
		out += text[at].encode()
		at += 1
	return bytes(out)


def _values(text):
	values = []
	for word in shlex.split(text or ''):
		if word == 'NULL':
			values.append(None)
		elif word.startswith('x:'):
			values.append(bytes.fromhex(word[2:]))
		else:
			values.append(word)
	return values


def _arguments(text):
	"""'(s,p,f=1+0,r=1)' as positional words and named lists of numbers."""
	words, named = [], {}
	for part in (text.split(',') if text else []):
		if '=' in part:
			key, value = part.split('=', 1)
			named[key] = [int(v) for v in value.split('+') if v]
		else:
			words.append(part)
	return words, named


def _function_call(words, named, values):
	formats, result = named.get('f', []), named.get('r', [0])[0]
	body = struct.pack('!IH', int(words[0]), len(formats))
	body += b''.join(struct.pack('!H', f) for f in formats) + struct.pack('!H', len(values))
	for value in values:
		if value is None:
			body += struct.pack('!i', -1)
			continue
		data = value if isinstance(value, bytes) else value.encode()
		body += struct.pack('!i', len(data)) + data
	return wire.frame('F', body + struct.pack('!H', result))


def _message(text):
	"""(bytes of one message, how many ReadyForQuery it causes)."""
	match = _MESSAGE.match(text)
	if not match:
		raise ValueError('no message: %r' % text)
	kind, rest = match.group(1), match.group(3) or ''
	words, named = _arguments(match.group(2))
	first, second = (words + ['', ''])[:2]
	if kind == 'Q':
		return wire.query(_bytes(rest) if '\\x' in rest else rest), 1
	if kind == 'S':
		return wire.sync(), 1
	if kind == 'F':
		return _function_call(words, named, _values(rest)), 1
	if kind == 'P':
		return wire.parse(rest, first, [int(t) for t in words[1:]]), 0
	if kind == 'B':
		return wire.bind(_values(rest), first, second, named.get('f', ()), named.get('r', ())), 0
	simple = {
		'D': lambda: wire.describe(first or 'P', second),
		'E': lambda: wire.execute(first, int(second or 0)),
		'C': lambda: wire.close(first, second),
		'H': wire.flush,
		'X': wire.terminate,
		'd': lambda: wire.copy_data(_bytes(rest)),
		'dx': lambda: wire.copy_data(bytes.fromhex(rest)),
		'c': wire.copy_done,
		'f': lambda: wire.copy_fail(rest),
		'raw': lambda: bytes.fromhex(rest),
	}
	return simple[kind](), 0


def _step(client, arrow, text):
	client = client or 'a'
	text = _expand(text)
	if arrow == '-':
		return Step(client, 'send', wire.query(text), 1)
	if arrow == '->':
		# One statement the extended way; values stand behind the last ' | '.
		sql, _, values = text.rpartition(' | ') if ' | ' in text else (text, '', '')
		return Step(client, 'send', wire.parse(sql) + wire.bind(_values(values)) +
			wire.describe('P') + wire.execute() + wire.sync(), 1)
	if arrow == '<':
		words = text.split()
		if words[0] in ('closed', 'nothing', 'open', 'leave'):
			return Step(client, words[0])
		return Step(client, 'read', until=words[0], count=int(words[1]) if words[1:] else 1)
	data, ready = b'', 0
	for part in text.split(' ;; '):
		message, answers = _message(part.strip(' '))
		data += message
		ready += answers
	return Step(client, 'send', data, ready if arrow == '>' else 0)


def _directive(case, word, text):
	if word == 'bank':
		case.bank += text.split()
	elif word in ('setup', 'cleanup'):
		getattr(case, word).append(text)
	elif word == 'needs':
		case.backends = int(text)
	elif word == 'only':
		case.only = tuple(text.split())
	elif word == 'mask':
		case.masks.append(re.compile(text))
	elif word == 'login':
		case.shows_login = True
	elif word == 'client':
		name, *parameters = shlex.split(text)
		case.clients[name] = dict(p.split('=', 1) for p in parameters)
	elif word == 'differs':
		stacks, _, reason = text.partition(': ')
		names = STACKS if stacks == 'all' else tuple(stacks.split())
		if not set(names) <= set(STACKS) or len(reason) < 10:
			raise ValueError('differs: STACKS: REASON')
		case.differences.append(Difference(names, reason))
	elif word == 'server':
		case.differences[-1].pairs.append([text, None])
	elif word == 'proxy':
		case.differences[-1].pairs[-1][1] = text


def _logical_lines(path):
	"""(line number, text): a line that begins with a tab continues the one before."""
	lines = []
	with open(path, encoding='utf-8') as f:
		for number, line in enumerate(f, 1):
			line = line.rstrip('\n')
			if line.startswith('\t') and lines:
				lines[-1][1] += '\n' + line[1:]
			elif line and not line.startswith('#'):
				lines.append([number, line])
	return lines


def read(path):
	theme = os.path.basename(path)[:-4]
	cases, case = [], None
	for number, line in _logical_lines(path):
		place = '%s:%d' % (os.path.basename(path), number)
		word, colon, text = line.partition(':')
		try:
			if colon and word == 'case':
				case = Case(theme, text.strip(), place)
				cases.append(case)
			elif colon and word in _DIRECTIVES:
				_directive(case, word, text.strip(' '))
			else:
				match = _STEP.match(line)
				if not match:
					raise ValueError('neither a directive nor a step')
				case.steps.append(_step(match.group(1), match.group(2), match.group(3) or ''))
		except (ValueError, KeyError, AttributeError, IndexError) as e:
			raise ValueError('%s: %s: %s' % (place, e, line)) from e
	return cases


def read_all(folder=FOLDER):
	cases, seen = [], {}
	for path in sorted(glob.glob(os.path.join(folder, '*.txt'))):
		cases += read(path)
	for case in cases:
		if case.label in seen:
			raise ValueError('%s and %s are both %s' % (seen[case.label], case.place, case.label))
		if not case.steps:
			raise ValueError('%s has no step' % case.place)
		seen[case.label] = case.place
	return cases
