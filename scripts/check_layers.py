#!/usr/bin/python3
"""Rule A (layers) and rule B (containment) of doc/internal: who may include what.

A. A folder includes only the folders listed in USES; another folder's headers only from
   include/, never its private ones in lib/.
B. A library's headers appear only in the folder that CONTAINS says, so that one place knows it.

Usage: check_layers.py [ROOT]. Prints a line for each violation; exit code 1 when there is one.
"""
import os
import re
import sys

BELOW_SESSION = ['base', 'config', 'stats', 'protocol', 'auth', 'net', 'classify', 'prepared',
	'backend', 'pool', 'route', 'forward']
# Folder -> what it uses. "folder/Header" allows that header alone.
USES = {
	'base': [],
	'config': ['base'],
	'stats': ['base', 'config'],
	'protocol': ['base'],
	'auth': ['base', 'config', 'protocol'],
	'net': ['base', 'config', 'stats'],
	'classify': ['base', 'config', 'stats'],
	# A prepared statement remembers the class that was found at Parse.
	'prepared': ['base', 'config', 'stats', 'protocol', 'classify'],
	'backend': ['base', 'config', 'stats', 'protocol', 'net', 'prepared'],
	'pool': ['base', 'config', 'stats', 'backend'],
	'route': ['base', 'config', 'stats', 'classify', 'pool/Hostgroup_View', 'pool/Server_Health',
		'pool/Acquire_Status'],
	'forward': ['base', 'stats', 'protocol', 'net', 'backend'],
	'session': BELOW_SESSION,
	'thread': BELOW_SESSION + ['session'],
	# The monitor reads the servers' answers, so it knows how positions are written.
	'monitor': ['base', 'config', 'stats', 'protocol', 'backend', 'pool'],
	'admin': ['base', 'config', 'stats', 'protocol', 'auth', 'net', 'classify', 'pool',
		'thread/Worker_Mailbox', 'thread/PgSQL_Threads_Handler'],
}
# (pattern of the included file, what it is, folders that may)
CONTAINS = [
	(r'^(libpq-fe|libpq-events|libpq/.*|pg_config.*|postgres_ext)\.h$', 'libpq', ['backend']),
	(r'^sqlite3.*\.h$', 'SQLite', ['admin']),
	(r'^openssl/', 'OpenSSL', ['net', 'auth']),
	(r'^ev(\+\+)?\.h$', 'libev', ['net']),
	(r'^re2/', 're2', ['classify']),
	(r'^pg_query', 'libpg_query', ['classify']),
	(r'^libconfig\.h', 'libconfig', ['config']),
	(r'^prometheus/', 'prometheus-cpp', ['stats', 'admin']),
]
SUFFIXES = ('.h', '.cpp', '.def')
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def sources(root):
	"""(folder, path relative to root) of each file under include/ and lib/."""
	for top in ('include', 'lib'):
		for directory, _, names in sorted(os.walk(os.path.join(root, top))):
			for name in sorted(names):
				path = os.path.relpath(os.path.join(directory, name), root)
				parts = path.split(os.sep)
				if name.endswith(SUFFIXES) and len(parts) > 2:
					yield parts[1], path


def allowed(folder, included_folder, included):
	if included_folder == folder:
		return True
	stem = os.path.splitext(included)[0]
	return included_folder in USES[folder] or stem in USES[folder]


def check_include(root, folder, path, quote, included):
	"""A message, or None when the include is fine."""
	for pattern, library, folders in CONTAINS:
		if re.match(pattern, included):
			if folder in folders:
				return None
			return '%s is used here, only %s may' % (library, ' and '.join(folders))
	if quote == '<':
		return None
	included_folder = included.split('/')[0] if '/' in included else None
	if included_folder is None or included_folder not in USES:
		here = os.path.join(root, os.path.dirname(path), included)
		return None if os.path.exists(here) else '"%s" is in no folder of this tree' % included
	if not allowed(folder, included_folder, included):
		return '%s may not use %s ("%s")' % (folder, included_folder, included)
	if included_folder != folder and not os.path.exists(os.path.join(root, 'include', included)):
		if os.path.exists(os.path.join(root, 'lib', included)):
			return '"%s" is private to lib/%s' % (included, included_folder)
	return None


def main():
	root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), '..')
	violations = 0
	files = 0
	for folder, path in sources(root):
		files += 1
		if folder not in USES:
			print('%s:1: folder %s has no row in the layer table' % (path, folder))
			violations += 1
			continue
		with open(os.path.join(root, path), encoding='utf-8', errors='replace') as source:
			for number, line in enumerate(source, 1):
				found = INCLUDE.match(line)
				message = found and check_include(root, folder, path, *found.groups())
				if message:
					print('%s:%d: %s' % (path, number, message))
					violations += 1
	if files == 0:
		print('%s: no source file found' % root)
		violations += 1
	return 1 if violations else 0


if __name__ == '__main__':
	sys.exit(main())
