#!/usr/bin/python3
"""Rule C (sizes) and the forbidden words of the style guide.

Sizes: 600 lines a file; 100 lines a function; control blocks nested 4 deep; names of 40 letters.
Words: C string functions without bounds; new, delete and malloc outside base; std::mutex and
volatile outside base; #if outside base, net and backend; goto; sleeps in unit and wire tests;
mutable globals; unfinished work without an issue number.

Exceptions stand in scripts/size_exceptions.txt, one a line: RULE PATH[:NAME] REASON...
An exception that nothing needs any more is a violation too.

Usage: check_sizes.py [ROOT]. Prints a line for each violation; exit code 1 when there is one.
"""
import os
import re
import sys

FILE_LINES = 600
FUNCTION_LINES = 100
NESTING = 4
NAME_LETTERS = 40
CODE = ('.cpp', '.h')
OTHER = ('.py', '.sh', '.c')
TOPS = ('include', 'lib', 'src', 'test', 'scripts', 'deps')

# (rule, pattern, message, path prefixes where it holds, prefixes where it does not)
ALL_CODE = ('include/', 'lib/', 'src/', 'test/')
OUR_CODE = ('include/', 'lib/', 'src/')
BASE = ('include/base/', 'lib/base/', 'src/pg_extension/')
WORDS = [
	('string', r'\b(strcpy|strcat|strncpy|strncat|sprintf|vsprintf|atoi|atol|atoll|gets)\s*\(',
		'has no bounds or no errors', ALL_CODE, ('src/pg_extension/',)),
	('memory', r'(?<!operator )\bnew\b(?!\s*[,;)=])|(?<!operator )\bdelete\b(?!\s*;)'
		r'|\b(malloc|calloc|realloc|free)\s*\(', 'owns memory by hand', OUR_CODE, BASE),
	('mutex', r'\bstd::(mutex|recursive_mutex|shared_mutex|lock_guard|unique_lock|scoped_lock)\b',
		'carries no annotations, use Mutex', OUR_CODE, BASE),
	('volatile', r'\bvolatile\b', 'is no synchronisation', OUR_CODE, BASE),
	('goto', r'\bgoto\b', 'is not used', ALL_CODE, ()),
	('sleep', r'\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(',
		'waits for time to pass', ('test/unit/', 'test/wire/'), ()),
	('preprocessor', r'^\s*#\s*(if|ifdef|ifndef|elif)\b', 'belongs in base, net or backend',
		OUR_CODE, BASE + ('include/net/', 'lib/net/', 'lib/backend/')),
	('preprocessor', r'^\s*#\s*if\s+0\b', 'is dead code', ALL_CODE, ()),
	('global', r'^(?!const\b|constexpr\b|constinit const\b|using\b|typedef\b|class\b|struct\b|enum\b'
		r'|union\b|template\b|friend\b|return\b|namespace\b|static const|inline const|static_assert'
		r'|extern\b|public\b|private\b|protected\b)[A-Za-z_][\w:<>,*& ]*[\s*&]\w+'
		r'(\{[^(]*\}|\s*=[^=(].*)?;\s*$', 'is a mutable global', OUR_CODE, BASE),
]
# A smart pointer made on the spot owns what it is given; make_shared cannot call a private
# constructor.
SMART_NEW = re.compile(r'(?<=_ptr<)[^;()]*>\s*\w*\(new\b')
UNFINISHED = re.compile(r'\b(FIXME|TODO|XXX|HACK)\b(?!\(#\d+\))')
ISSUE_FIXME = re.compile(r'\bFIXME\(#\d+\)')


def blank(text):
	"""The text with the insides of comments and literals as spaces; lines keep their numbers."""
	token = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
		r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'", re.S)
	return token.sub(lambda found: re.sub(r'[^\n]', ' ', found.group(0)), text)


class Braces:
	"""Walks the braces of blanked code and reports functions that are too long or too deep."""

	CONTAINER = re.compile(r'^\s*(template\s*<.*>\s*)?(inline\s+)?'
		r'(namespace|class|struct|union|enum|extern)\b[^()=]*(\(\s*("[^"]*"|[^()]*)\s*\)[^()=]*)?$',
		re.S)
	CONTROL = re.compile(r'(\b(if|for|while|switch|catch)\b.*\)|\b(else|do|try))\s*$', re.S)
	NAME = re.compile(r'([~\w:]+)\s*\(')

	def __init__(self, code):
		self.code = code
		self.functions = []  # (name, first line, lines, depth, line of the deepest block)

	def walk(self):
		stack = []
		head_start = 0
		line = 1
		function = None
		parentheses = 0
		for position, letter in enumerate(self.code):
			if letter == '\n':
				line += 1
			elif letter in '()':
				parentheses += 1 if letter == '(' else -1
			elif letter == '{':
				head = self.code[head_start:position]
				kind = self.kind(head, function)
				if kind == 'function':
					name = self.NAME.search(re.sub(r'\([^()]*\)\s*(?=\()', '', head))
					function = [name.group(1) if name else '?', line, 0, 0, line]
				elif kind == 'control':
					depth = 1 + sum(1 for entry in stack if entry == 'control')
					if depth > function[3]:
						function[3], function[4] = depth, line
				stack.append(kind)
				head_start = position + 1
			elif letter == '}':
				kind = stack.pop() if stack else 'data'
				if kind == 'function':
					function[2] = line - function[1] + 1
					self.functions.append(tuple(function))
					function = None
				head_start = position + 1
			elif letter == ';' and (parentheses <= 0 or function is None):
				head_start = position + 1
		return self.functions

	def kind(self, head, function):
		# Preprocessor lines belong to no statement; "public:" belongs to none either.
		head = re.sub(r'(?m)^\s*#.*(\\\n.*)*$', '', head)
		head = re.sub(r'\b(public|private|protected)\s*:(?!:)', '', head).strip()
		if function is not None:
			return 'control' if self.CONTROL.search(head) else 'data'
		if self.CONTAINER.match(head):
			return 'container'
		if '(' in head and not re.search(r'=\s*$|(?<![=!<>])=(?!=)[^()]*$', head):
			return 'function'
		return 'data'


class Exceptions:
	"""scripts/size_exceptions.txt."""

	def __init__(self, root):
		self.path = os.path.join('scripts', 'size_exceptions.txt')
		self.entries = {}
		self.faults = []
		full = os.path.join(root, self.path)
		if not os.path.exists(full):
			return
		with open(full, encoding='utf-8') as listed:
			for number, text in enumerate(listed, 1):
				words = text.split('#')[0].split()
				if words and len(words) < 3:
					self.faults.append('%s:%d: an exception needs RULE PATH REASON'
						% (self.path, number))
				elif words:
					self.entries[(words[0], words[1])] = [number, False]

	def covers(self, rule, path, name):
		for key in ((rule, path), (rule, '%s:%s' % (path, name))):
			if key in self.entries:
				self.entries[key][1] = True
				return True
		return False

	def leftovers(self):
		for (rule, what), (number, used) in sorted(self.entries.items()):
			if not used:
				yield '%s:%d: nothing needs the exception %s %s' % (self.path, number, rule, what)


class Check:
	def __init__(self, root):
		self.root = root
		self.exceptions = Exceptions(root)
		self.violations = list(self.exceptions.faults)
		self.declared = self.variable_names()

	def variable_names(self):
		"""Names that a .def row gives: ProxySQL's own, however long."""
		names = set()
		for directory, _, files in os.walk(os.path.join(self.root, 'include')):
			for name in files:
				if name.endswith('.def'):
					with open(os.path.join(directory, name), encoding='utf-8') as rows:
						names.update(re.findall(r'\bX\w*\((\w+)', rows.read()))
		return names

	def report(self, rule, path, line, name, message):
		if not self.exceptions.covers(rule, path, name):
			self.violations.append('%s:%d: [%s] %s' % (path, line, rule, message))

	def file(self, path):
		with open(os.path.join(self.root, path), encoding='utf-8', errors='replace') as source:
			text = source.read()
		lines = text.count('\n')
		if lines > FILE_LINES:
			self.report('file', path, FILE_LINES + 1, '', '%d lines, %d allowed'
				% (lines, FILE_LINES))
		# This script and its test must be able to spell the words.
		if not path.startswith('scripts/check_s'):
			for number, line in enumerate(text.split('\n'), 1):
				if UNFINISHED.search(ISSUE_FIXME.sub('', line)):
					self.report('unfinished', path, number, '',
						'finish it, or write FIXME(#issue)')
		if path.endswith(CODE):
			self.code(path, text)

	def code(self, path, text):
		code = blank(text)
		for rule, pattern, message, holds, exempt in WORDS:
			if not path.startswith(holds) or path.startswith(exempt):
				continue
			for number, line in enumerate(code.split('\n'), 1):
				if rule == 'memory':
					line = SMART_NEW.sub('(', line)
				found = re.search(pattern, line)
				if found:
					word = found.group(0).strip().rstrip('(').strip()
					self.report(rule, path, number, word, '%s %s' % (word, message))
		for number, line in enumerate(code.split('\n'), 1):
			for name in re.findall(r'\b[A-Za-z_]\w{%d,}\b' % NAME_LETTERS, line):
				if name not in self.declared:
					self.report('name', path, number, name,
						'%s has %d letters, %d allowed' % (name, len(name), NAME_LETTERS))
		for name, line, length, depth, deepest in Braces(code).walk():
			if length > FUNCTION_LINES:
				self.report('function', path, line, name, '%s has %d lines, %d allowed'
					% (name, length, FUNCTION_LINES))
			if depth > NESTING and path.startswith(OUR_CODE):
				self.report('nesting', path, deepest, name, '%s nests %d blocks, %d allowed'
					% (name, depth, NESTING))

	def run(self):
		files = 0
		for top in TOPS:
			for directory, folders, names in sorted(os.walk(os.path.join(self.root, top))):
				folders[:] = [name for name in folders if not name.startswith(('build', '.', '__'))]
				for name in sorted(names):
					path = os.path.relpath(os.path.join(directory, name), self.root)
					if name.endswith(CODE + OTHER) or (top == 'scripts' and '.' not in name):
						files += 1
						self.file(path)
		self.violations.extend(self.exceptions.leftovers())
		if files == 0:
			self.violations.append('%s: no source file found' % self.root)
		return self.violations


def main():
	root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), '..')
	violations = Check(os.path.normpath(root)).run()
	for violation in violations:
		print(violation)
	return 1 if violations else 0


if __name__ == '__main__':
	sys.exit(main())
