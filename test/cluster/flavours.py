"""The kinds of server a test cluster can be made of."""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Flavour:
	"""prefix: installation folder (bin/, lib/); settings: extra postgresql.conf lines."""

	def __init__(self, name, prefix, settings=None):
		self.name = name
		self.prefix = prefix
		self.settings = settings or {}

	def program(self, name):
		return os.path.join(self.prefix, 'bin', name)

	def version(self):
		return subprocess.run([self.program('postgres'), '--version'], stdout=subprocess.PIPE,
			check=True, text=True).stdout.strip()


def _stock():
	prefix = '/usr/lib/postgresql/15'
	if not os.path.exists(prefix + '/bin/postgres'):
		raise RuntimeError('PostgreSQL 15 is not installed; run scripts/setup')
	return Flavour('stock', prefix)


def _kernel():
	"""The test kernel: patched PostgreSQL plus the companion extension, built once and cached.

	Its initdb makes clusters that preload the extension, so no setting is needed here.
	"""
	build = os.path.join(ROOT, 'test', 'kernel', 'build')
	run = subprocess.run([build], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
	if run.returncode != 0:
		raise RuntimeError('%s failed:\n%s' % (build, run.stderr[-4000:]))
	prefix = run.stdout.strip().splitlines()[-1]
	return Flavour('kernel', prefix)


def get(name):
	makers = {'stock': _stock, 'kernel': _kernel}
	if name not in makers:
		raise ValueError('unknown flavour %r (known: %s)' % (name, ', '.join(sorted(makers))))
	return makers[name]()
