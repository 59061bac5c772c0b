"""A psycopg 3 program, sync, async and in pipeline mode: everything goes to stdout."""
import asyncio
import datetime
import logging
import uuid

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

out = print
# The driver warns of the rest of a broken pipeline or not, as the answers happen to arrive: at the
# server alone too.
logging.getLogger('psycopg').setLevel(logging.ERROR)


def statements(conn):
	conn.execute('drop table if exists p3')
	conn.execute('create table p3 (id int primary key, v text, at timestamptz, u uuid, j jsonb)')
	when = datetime.datetime(2024, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc)
	with conn.transaction():
		conn.cursor().executemany('insert into p3 values (%s, %s, %s, %s, %s)',
			[(i, 'v%d' % i, when, uuid.UUID(int=i), Jsonb({'n': i})) for i in range(200)])
	# Often enough that the driver makes a named statement of it.
	for i in range(12):
		row = conn.execute('select v, j from p3 where id = %s', (i,)).fetchone()
		out(row)
	out(conn.execute('select %s::int + 1', (5,), prepare=True).fetchone())
	for binary in (False, True):
		cur = conn.cursor(binary=binary, row_factory=dict_row)
		out(cur.execute('select 1 as a, 1.5::numeric as b, true as c, now() is null as d,'
			" '{1,2}'::int[] as e, u, at at time zone 'utc' as t from p3 order by id limit 1").fetchone())
	# A column more: the prepared plan no longer fits. A server refuses it once; the proxy need not.
	for step in range(3):
		conn.execute(sql.SQL('alter table p3 add column c{} int').format(sql.Literal(step)))
		try:
			row = conn.execute('select * from p3 where id = %s', (1,), prepare=True).fetchone()
		except psycopg.errors.FeatureNotSupported:
			row = conn.execute('select * from p3 where id = %s', (1,), prepare=False).fetchone()
		out(len(row))


def cursors(conn):
	with conn.transaction(), conn.cursor(name='srv') as cur:
		cur.itersize = 13
		out(sum(r[0] for r in cur.execute('select id from p3 order by id')))
	with conn.cursor(name='held', withhold=True, scrollable=True) as cur:
		cur.execute('select id from p3 order by id limit 9')
		out(cur.fetchmany(4))
		cur.scroll(0, 'absolute')
		out(len(cur.fetchall()))
	try:
		for row in conn.cursor().stream('select 10 / (5 - i) from generate_series(1, 10) i'):
			out(row)
	except psycopg.Error as e:
		out(e.sqlstate)


def copies(conn):
	conn.execute('create temp table c3 (i int, t text)')
	with conn.cursor().copy('copy c3 from stdin') as copy:
		for i in range(1000):
			copy.write_row((i, 'x' * (i % 7)))
	with conn.cursor().copy('copy c3 (i, t) from stdin (format binary)') as copy:
		copy.set_types(['int4', 'text'])
		copy.write_row((5000, 'binary'))
	out(conn.execute('select count(*), sum(i), sum(length(t)) from c3').fetchone())
	with conn.cursor().copy('copy (select * from c3 where i > 995 order by i) to stdout') as copy:
		out(list(copy.rows()))
	try:
		with conn.cursor().copy('copy c3 from stdin') as copy:
			copy.write_row((1, 'a'))
			raise KeyError('mine')
	except psycopg.errors.QueryCanceled as e:
		out('left the copy with', e)
	try:
		with conn.cursor().copy('copy c3 from stdin') as copy:
			copy.write('no\tnumber\n')
	except psycopg.Error as e:
		out(e.sqlstate)
	conn.execute('drop table c3')


def pipelines(conn):
	with conn.pipeline() as p:
		a = conn.execute('select %s::text', ('a',))
		b = conn.execute("update p3 set v = 'w' where id < %s", (5,))
		p.sync()
		c = conn.execute('select count(*) from p3 where v = %s', ('w',))
		out(a.fetchone(), b.rowcount, c.fetchone())
	try:
		with conn.pipeline() as p:
			conn.execute("insert into p3 (id) values (1000)")
			conn.execute('select 1/0')
			conn.execute("insert into p3 (id) values (1001)")
	except psycopg.Error as e:
		out(e.sqlstate)
	out(conn.execute('select count(*) from p3 where id >= 1000').fetchone())
	with conn.pipeline():
		with conn.transaction():
			cur = conn.cursor()
			cur.executemany('insert into p3 (id) values (%s) returning id', [(2000 + i,) for i in range(50)],
				returning=True)
			total = 0
			while True:
				total += cur.fetchone()[0]
				if not cur.nextset():
					break
			out(total)
	with conn.pipeline():
		rows = [conn.execute('select %s::int', (i,)) for i in range(300)]
	out(sum(r.fetchone()[0] for r in rows))


async def one(number):
	async with await psycopg.AsyncConnection.connect('', autocommit=True) as conn:
		await conn.execute('select set_config(%s, %s, false)', ('application_name', 'n%d' % number))
		for _ in range(20):
			cur = await conn.execute("select current_setting('application_name'), %s::int", (number,))
			assert await cur.fetchone() == ('n%d' % number, number)
		async with conn.pipeline():
			curs = [await conn.execute('select %s::int', (i,)) for i in range(20)]
		return sum([(await c.fetchone())[0] for c in curs])


async def notifications():
	async with await psycopg.AsyncConnection.connect('', autocommit=True) as hear:
		await hear.execute('listen p3_news')

		async def first():
			async for n in hear.notifies():
				return n.channel, n.payload

		task = asyncio.ensure_future(first())
		async with await psycopg.AsyncConnection.connect('', autocommit=True) as say:
			await say.execute("select pg_notify('p3_news', 'for you')")
		out(await asyncio.wait_for(task, 20))


async def cancelled():
	async with await psycopg.AsyncConnection.connect('', autocommit=True) as conn:
		task = asyncio.ensure_future(conn.execute('select pg_sleep(20)'))
		await asyncio.sleep(0.3)
		conn.cancel()
		try:
			await task
		except psycopg.errors.QueryCanceled as e:
			out(e.sqlstate)
		cur = await conn.execute('select 5')
		out(await cur.fetchone())


async def concurrent():
	out(sum(await asyncio.gather(*(one(i) for i in range(15)))))
	await notifications()
	await cancelled()


with psycopg.connect('', autocommit=True) as connection:
	out(connection.info.server_version, connection.info.parameter_status('TimeZone'))
	statements(connection)
	cursors(connection)
	copies(connection)
	pipelines(connection)
	connection.execute('drop table p3')
asyncio.run(concurrent())
