#!/usr/bin/python3
"""The cases of test/differential: the same bytes straight at the primary and through the proxy must
give the same answers, message for message, behind pools of one and two connections and behind a
read/write split, with plain and with TLS clients. Each case is one test.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..'))
sys.path.insert(0, os.path.join(HERE, '..', '..', 'differential'))
import runner  # noqa: E402
import case_file  # noqa: E402
import stacks  # noqa: E402

CASES = case_file.read_all(os.environ.get('POLAR_CASES', case_file.FOLDER))
WORKERS = []


def setup():
	names = os.environ.get('POLAR_STACKS', ' '.join(case_file.STACKS)).split()
	WORKERS.extend(stacks.Worker(name, CASES) for name in names)
	for worker in WORKERS:
		worker.wait_ready()


def teardown():
	for worker in WORKERS:
		worker.close()


def _make_test(number):
	def test():
		for worker in WORKERS:
			worker.ask(number)
		troubles = [t for t in (w.answer(number) for w in WORKERS) if t]
		assert not troubles, '\n'.join(troubles)
	return test


for _number, _case in enumerate(CASES):
	globals()['test_' + _case.label] = _make_test(_number)


if __name__ == '__main__':
	runner.main(globals())
