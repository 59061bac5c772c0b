"""Runs the test_* functions of one test program.

A test program ends with `runner.main(globals())`. It may define setup() and teardown(), run once
around all tests; and it may set TIMEOUT (seconds a test may take, default 60) or test_x.timeout for
one test. For each test one line is printed: PASS or FAIL, the name, the seconds it took.
"""
import argparse
import fnmatch
import os
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
	'fault'))


class TestTimeout(BaseException):
	"""Not an Exception, so that no test's own handler swallows it."""


def _alarm(*unused):
	raise TestTimeout('the test took too long')


def _guarded(function, seconds):
	"""Runs function with a time limit; the trouble it met as text, or None."""
	signal.signal(signal.SIGALRM, _alarm)
	signal.alarm(int(seconds))
	try:
		function()
		return None
	except (Exception, TestTimeout):  # pylint: disable=broad-except
		return traceback.format_exc()
	finally:
		signal.alarm(0)


def main(names):
	program = os.path.basename(names['__file__']).rsplit('.', 1)[0]
	parser = argparse.ArgumentParser(description=names.get('__doc__'))
	parser.add_argument('--filter', default='*', help='shell pattern over the test names')
	parser.add_argument('--list', action='store_true')
	args = parser.parse_args()
	pattern = args.filter if any(c in args.filter for c in '*?[') else '*%s*' % args.filter
	tests = [(n, f) for n, f in names.items() if n.startswith('test_') and callable(f)]
	tests = [(n, f) for n, f in tests
		if fnmatch.fnmatch(n, pattern) or fnmatch.fnmatch('%s.%s' % (program, n), pattern)]
	if args.list:
		for name, _ in tests:
			print('%s.%s' % (program, name))
		return
	if not tests:
		sys.exit(0)
	# SIGTERM from the runner above must still run the clean-up.
	signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
	limit = names.get('TIMEOUT', 60)
	failed = 0
	trouble = _guarded(names['setup'], 120) if 'setup' in names else None
	for name, function in tests:
		start = time.monotonic()
		seconds = getattr(function, 'timeout', limit)
		failure = trouble or _guarded(function, seconds)
		took = time.monotonic() - start
		if failure:
			failed += 1
			print(failure, flush=True)
		print('%s %s.%s %.2f' % ('FAIL' if failure else 'PASS', program, name, took), flush=True)
	if 'teardown' in names:
		failure = _guarded(names['teardown'], 120)
		if failure:
			failed += 1
			print('%s\nFAIL %s.teardown 0' % (failure, program), flush=True)
	sys.exit(1 if failed else 0)
