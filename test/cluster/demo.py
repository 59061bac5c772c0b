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


class Show:
	"""Runs statements one by one and finds out from the proxy's own statistics where and why."""

	def __init__(self, cluster, proxy):
		self.cluster = cluster
		self.proxy = proxy
		self.session = proxy.session()
		self.rows = []

	def run(self, statement, note=''):
		before, reasons = self.proxy.queries_by_port(), self.proxy.reasons()
		start = time.monotonic()
		result = self.session.sql(statement)
		took = (time.monotonic() - start) * 1000
		after = self.proxy.queries_by_port()
		where = [self.cluster.node_at(p).name for p in after if after[p] != before.get(p, 0)]
		why = [r for r, c in self.proxy.reasons().items() if c != reasons.get(r, 0)]
		answer = result.scalar if result.rows else result.tag
		self.rows.append((statement, ', '.join(where), answer, '%.1f' % took, ', '.join(why), note))
		return answer

	def comment(self, text):
		self.rows.append((text,))

	def table(self):
		titles = ('statement', 'ran on', 'answer', 'ms', 'why')
		full = [r for r in self.rows if len(r) > 1]
		widths = [max(len(str(r[i])) for r in full + [titles]) for i in range(5)]
		line = '+'.join('-' * (w + 2) for w in widths)
		lines = [line, '|'.join(' %-*s ' % (w, t) for w, t in zip(widths, titles)), line]
		for row in self.rows:
			if len(row) == 1:
				lines.append('-- ' + row[0])
			else:
				lines.append('|'.join(' %-*s ' % (w, row[i]) for i, w in enumerate(widths)) +
					row[5])
		return '\n'.join(lines + [line])


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
	show.run(
		'with m as (update accounts set balance = 200 where id = 8 returning id) select * from m')
	show.comment(
		'%s is held back now: it replays nothing. A read right after a write is right anyway'
		% held.name)
	held.pause_replay()
	wrong = 0
	try:
		for value in range(1, 5):
			show.run('update accounts set balance = %d where id = 9' % value)
			answer = show.run('select balance from accounts where id = 9')
			wrong += answer != str(value)
		stale = held.scalar('select balance from accounts where id = 9', 'app')
	finally:
		held.resume_replay()
	show.comment('asked directly, the replica held back said: balance = %s' % stale)
	show.comment('a transaction stays on one server')
	show.run('begin')
	show.run('update accounts set balance = balance - 10 where id = 1')
	show.run('select balance from accounts where id = 1')
	show.run('commit')
	show.session.close()
	print(show.table())
	if wrong:
		print('%d stale answers' % wrong)
		return False
	return True


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
		sweep(folder)
		raise
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
