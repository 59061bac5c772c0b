"""The visible part of scripts/demo: starts servers and proxy, plays a session, prints what
happened."""
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from cluster import Cluster, Proxy, eventually  # noqa: E402
from cluster.workspace import sweep  # noqa: E402

STATE = 'demo.json'


# Reasons of a second attempt: shown behind those of the first.
SECOND = ('wait_timeout', 'retry_on_primary')


class Show:
	"""Runs statements one by one and finds out from the proxy's own statistics where and why."""

	def __init__(self, cluster, proxy):
		self.cluster = cluster
		self.proxy = proxy
		self.session = proxy.session()
		self.rows = []
		self.seen = []

	def run(self, statement):
		before, reasons = self.proxy.queries_by_port(), self.proxy.reasons()
		start = time.monotonic()
		result = self.session.sql(statement)
		took = (time.monotonic() - start) * 1000
		after = self.proxy.queries_by_port()
		where = [self.cluster.node_at(p).name for p in after if after[p] != before.get(p, 0)]
		where.sort(key=lambda name: name == self.cluster.primary.name)
		why = [r for r, c in self.proxy.reasons().items() if c != reasons.get(r, 0)]
		why.sort(key=lambda reason: reason in SECOND)
		self.seen += [r for r in why if r not in self.seen]
		answer = result.scalar if result.rows else result.tag
		self.rows.append((statement, ', then '.join(where), answer, '%.1f' % took, ', '.join(why)))
		return answer

	def comment(self, text):
		self.rows.append((text,))

	def table(self):
		titles = ('statement', 'ran on', 'answer', 'ms', 'why')
		full = [r for r in self.rows if len(r) > 1]
		widths = [max(len(str(r[i])) for r in full + [titles]) for i in range(5)]
		line = '+'.join('-' * (w + 2) for w in widths)
		lines = [line, self._row(titles, widths), line]
		for row in self.rows:
			lines.append('-- ' + row[0] if len(row) == 1 else self._row(row, widths))
		return '\n'.join(lines + [line])

	def legend(self):
		said = dict(self.proxy.admin('select reason, description from stats_pgsql_route_reasons')
			.rows)
		width = max(len(reason) for reason in self.seen)
		return '\n'.join('  %-*s  %s' % (width, r, said.get(r, '')) for r in self.seen)

	@staticmethod
	def _row(values, widths):
		cells = [str(v).rjust(w) if i == 3 else str(v).ljust(w)
			for i, (v, w) in enumerate(zip(values, widths))]
		return (' ' + ' | '.join(cells)).rstrip()


def play(cluster, proxy):
	show = Show(cluster, proxy)
	held = cluster.replicas[1]
	show.comment('writes go to the primary')
	show.run('create table accounts (id int primary key, balance int)')
	show.run('insert into accounts select i, 100 from generate_series(1, 1000) i')
	cluster.wait_caught_up()
	show.comment('reads go to the replicas')
	show.run('select count(*) from accounts')
	show.run('select balance from accounts where id = 7')
	show.run('select max(balance) from accounts')
	show.comment('statements that only look like reads go to the primary')
	show.run('select balance from accounts where id = 7 for update')
	show.run('with u as (delete from accounts where id = 8 returning id) select * from u')
	show.comment('%s is held back now: it replays nothing. A read right after a write' % held.name)
	show.comment('is right anyway; when %s is asked, it gets a second to catch up' % held.name)
	held.pause_replay()
	wrong = 0
	try:
		for value in range(1, 5):
			show.run('update accounts set balance = %d where id = 9' % value)
			answer = show.run('select balance from accounts where id = 9')
			wrong += answer != str(value)
		stale = held.scalar('select balance from accounts where id = 9', 'app')
		now = cluster.primary.scalar('select balance from accounts where id = 9', 'app')
	finally:
		held.resume_replay()
	show.comment('asked directly, without the proxy, %s said %s, and the primary %s' % (
		held.name, stale, now))
	show.comment('a transaction stays on one server')
	show.run('begin')
	show.run('update accounts set balance = balance - 10 where id = 1')
	show.run('select balance from accounts where id = 1')
	show.run('commit')
	show.session.close()
	print(show.table())
	print('\nwhy:\n%s' % show.legend())
	if wrong or stale == now:
		print('\n%d stale answers through the proxy; held back: %s, primary: %s' % (
			wrong, stale, now))
		return False
	return True


def log_end(folder):
	try:
		with open(os.path.join(folder, 'proxy.log'), encoding='utf-8', errors='replace') as f:
			return f.read()[-4000:]
	except OSError:
		return 'there is none\n'


def start(folder):
	if os.path.exists(os.path.join(folder, STATE)):
		sweep(folder)
	cluster = Cluster('kernel', 2, directory=folder, persistent=True)
	try:
		with open(os.path.join(folder, STATE), 'w', encoding='utf-8') as f:
			json.dump(cluster.describe(), f)
		proxy = Proxy(cluster, prefer_ports=(6133, 6132))
		eventually(lambda: len(proxy.online()) >= 3, 20, 'servers online')
		print('\nprimary on port %d, replicas on ports %s, proxy on port %d (admin %d)\n' % (
			cluster.primary.port, ' and '.join(str(r.port) for r in cluster.replicas), proxy.port,
			proxy.admin_port))
		right = play(cluster, proxy)
	except BaseException:
		print('---- end of the proxy log\n%s----' % log_end(folder), file=sys.stderr)
		sweep(folder)
		raise
	if right:
		print('\nEvery read was right, although the replica held back was behind.', end='')
	print('''
It is left running.
  use it:    PGPASSWORD=app-secret psql -h 127.0.0.1 -p %d -U app app
  look:      PGPASSWORD=admin psql -h 127.0.0.1 -p %d -U admin main
               select * from stats_pgsql_connection_pool;
               select * from stats_pgsql_query_digest;
               select * from stats_pgsql_route_reasons;
  its files: %s (configuration proxy.cnf, log proxy.log)
  stop:      scripts/demo stop
''' % (proxy.port, proxy.admin_port, folder))
	return 0 if right else 1


def main():
	action, folder = sys.argv[1:3]
	if action == 'stop':
		if not os.path.exists(os.path.join(folder, STATE)):
			print('no demo is running')
			return 0
		sweep(folder)
		print('the demo is stopped and its files are removed')
		return 0
	return start(folder)


if __name__ == '__main__':
	sys.exit(main())
