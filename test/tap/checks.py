"""Small helpers that several test programs share."""
import os
import subprocess
import threading

from cluster import WireError

PG_BIN = '/usr/lib/postgresql/15/bin'


def load_seconds(default):
	"""How long load tests run; the environment can make them long (POLAR_LOAD_SECONDS=60)."""
	return int(os.environ.get('POLAR_LOAD_SECONDS', default))


def expect_error(sqlstate, function, *arguments, **keywords):
	"""Calls function, which must raise a WireError with that SQLSTATE (or one of several)."""
	wanted = (sqlstate,) if isinstance(sqlstate, str) else tuple(sqlstate)
	try:
		function(*arguments, **keywords)
	except WireError as e:
		assert e.sqlstate in wanted, 'expected %s, got %s' % (wanted, e)
		return e
	raise AssertionError('no error; expected %s' % (wanted,))


def equal(got, wanted, what=''):
	assert got == wanted, '%s: got %r, wanted %r' % (what or 'values differ', got, wanted)


def same_lines(got, wanted, what):
	"""Compares two transcripts and shows the first lines that differ."""
	if got == wanted:
		return
	left, right = got.splitlines(), wanted.splitlines()
	for i in range(max(len(left), len(right))):
		a = left[i] if i < len(left) else '(nothing)'
		b = right[i] if i < len(right) else '(nothing)'
		if a != b:
			raise AssertionError('%s: message %d differs\n  proxy:  %.2000s\n  server: %.2000s' % (
				what, i + 1, a, b))


def in_threads(functions, timeout):
	"""Runs the functions side by side; raises the first trouble any of them met."""
	troubles = []

	def guarded(function):
		try:
			function()
		except BaseException as e:  # pylint: disable=broad-except
			troubles.append(e)

	threads = [threading.Thread(target=guarded, args=(f,), daemon=True) for f in functions]
	for thread in threads:
		thread.start()
	for thread in threads:
		thread.join(timeout)
	assert not any(t.is_alive() for t in threads), 'a session is stuck after %s s' % timeout
	if troubles:
		raise troubles[0]


def pgbench(address, arguments, user='app', password='app-secret', database='app', timeout=120):
	"""Runs pgbench against address; its output. A failed transaction or an abort is an error."""
	argv = [os.path.join(PG_BIN, 'pgbench'), '-h', address[0], '-p', str(address[1]), '-U', user]
	run = subprocess.run(argv + arguments + [database], stdin=subprocess.DEVNULL, text=True,
		stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout,
		env=dict(os.environ, PGPASSWORD=password, PGOPTIONS=''))
	assert run.returncode == 0, 'pgbench %s\n%s' % (arguments, run.stdout[-3000:])
	assert 'number of failed transactions: 0' in run.stdout or '-i' in arguments, run.stdout[-3000:]
	return run.stdout


def psql(address, statement, user='app', password='app-secret', database='app', options=()):
	"""psql as a real client; (exit code, output)."""
	argv = [os.path.join(PG_BIN, 'psql'), '-X', '-h', address[0], '-p', str(address[1]), '-U', user,
		'-d', database, '-Atc', statement]
	run = subprocess.run(argv + list(options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
		stderr=subprocess.STDOUT, text=True, timeout=60, env=dict(os.environ, PGPASSWORD=password))
	return run.returncode, run.stdout.strip()
