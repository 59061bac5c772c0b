"""A psycopg2 program: everything goes to stdout."""
import io
import threading

import psycopg2
import psycopg2.errors
import psycopg2.extensions
import psycopg2.extras

out = print
conn = psycopg2.connect('')
out(conn.server_version, conn.encoding, conn.get_parameter_status('standard_conforming_strings'))
cur = conn.cursor()
cur.execute('drop table if exists p2; create table p2 (id serial primary key, v text, n numeric)')
conn.commit()
psycopg2.extras.execute_values(cur, 'insert into p2 (v, n) values %s',
	[('v%d' % i, i / 4) for i in range(500)], page_size=50)
psycopg2.extras.execute_batch(cur, 'update p2 set n = n + %s where id = %s',
	[(1, i) for i in range(1, 101)])
conn.commit()
cur.execute('select count(*), sum(n), min(v), max(v) from p2')
out(cur.fetchone(), [d.name for d in cur.description])

# A cursor on the server, read in parts; one that outlives its transaction.
with conn.cursor('part', withhold=False) as part:
	part.itersize = 37
	part.execute('select id, v from p2 order by id')
	out(sum(row[0] for row in part))
conn.commit()
hold = conn.cursor('kept', withhold=True, scrollable=True)
hold.execute('select id from p2 order by id limit 10')
conn.commit()
out(hold.fetchmany(3))
hold.scroll(-2)
out(hold.fetchall())
hold.close()
conn.commit()

# COPY.
text = io.StringIO()
cur.copy_expert('copy (select id, v from p2 order by id limit 5) to stdout', text)
out(text.getvalue())
cur.copy_from(io.StringIO('x\t1\ny\t\\N\n'), 'p2', columns=('v', 'n'))
conn.commit()
try:
	cur.copy_from(io.StringIO('x\tnot a number\n'), 'p2', columns=('v', 'n'))
except psycopg2.errors.InvalidTextRepresentation as e:
	out(e.pgcode, e.diag.context)
conn.rollback()


class Broken:
	def read(self, size):
		raise ValueError('the file broke')


try:
	cur.copy_expert('copy p2 (v) from stdin', Broken())
except psycopg2.Error as e:
	out(e.pgcode, type(e).__name__)
conn.rollback()

# Levels, savepoints, errors, autocommit, read only, notices.
conn.set_session(isolation_level='REPEATABLE READ')
cur.execute('show transaction_isolation')
out(cur.fetchone())
cur.execute('savepoint a')
for bad in ('select 1/0', 'selec', "insert into p2 (id) values (1)"):
	try:
		cur.execute(bad)
	except psycopg2.Error as e:
		out(e.pgcode, e.diag.severity, e.diag.constraint_name, e.diag.statement_position)
		cur.execute('rollback to a')
cur.execute('select 7')
out(cur.fetchone())
conn.commit()
conn.set_session(readonly=True, isolation_level='DEFAULT')
try:
	cur.execute("insert into p2 (v) values ('no')")
except psycopg2.Error as e:
	out(e.pgcode)
conn.rollback()
conn.set_session(readonly=False, autocommit=True)
cur.execute("do $$ begin raise notice 'hello %', 1; end $$")
out(conn.notices)
cur.execute('set timezone to %s', ('Asia/Tokyo',))
cur.execute('show timezone')
out(cur.fetchone())
cur.execute("select %s::json, %s::int[], %s::bytea, %s", (psycopg2.extras.Json({'a': 1}), [1, 2],
	b'\x00\xff', None))
row = cur.fetchone()
out(row[0], row[1], bytes(row[2]), row[3])
conn.set_client_encoding('LATIN1')
cur.execute("select 'ü' || chr(233), octet_length('ü')")
out(cur.fetchone())
conn.set_client_encoding('UTF8')

# Notifications, also from another connection.
cur.execute('listen p2_news')
other = psycopg2.connect('')
other.autocommit = True
other.cursor().execute("notify p2_news, 'payload'")
for _ in range(100):
	cur.execute('select 1')
	if conn.notifies:
		break
out([(n.channel, n.payload) for n in conn.notifies])
cur.execute('unlisten *')

# Lock, temporary table.
cur.execute('select pg_advisory_lock(11), pg_try_advisory_lock(12)')
out(cur.fetchone())
cur.execute('create temp table mine as select 1 as a')
cur.execute('select a from mine')
out(cur.fetchone())
cur.execute('drop table mine')
cur.execute('select pg_advisory_unlock(11), pg_advisory_unlock(12)')
out(cur.fetchone())

# Cancel.
cur.execute('select 1')
timer = threading.Timer(0.3, conn.cancel)
timer.start()
try:
	cur.execute('select pg_sleep(20)')
except psycopg2.errors.QueryCanceled as e:
	out(e.pgcode, str(e).strip())
timer.join()
cur.execute('select 2')
out(cur.fetchone())

# Two-phase commit.
conn.autocommit = False
conn.reset()
xid = conn.xid(42, 'gtrid', 'bqual')
conn.tpc_begin(xid)
cur = conn.cursor()
cur.execute("insert into p2 (v) values ('two phases')")
conn.tpc_prepare()
conn.tpc_commit()
cur.execute("select count(*) from p2 where v = 'two phases'")
out(cur.fetchone())
conn.rollback()


def many(number):
	mine = psycopg2.connect('')
	with mine, mine.cursor() as c:
		for i in range(30):
			c.execute("select set_config('polar.test', %s, true), current_setting('polar.test')",
				('%d-%d' % (number, i),))
			assert c.fetchone() == ('%d-%d' % (number, i),) * 2
	mine.close()
	done.append(number)


done = []
threads = [threading.Thread(target=many, args=(i,)) for i in range(12)]
for t in threads:
	t.start()
for t in threads:
	t.join()
out(sorted(done))
cur.execute('drop table p2')
conn.commit()
