"""An asyncpg program: everything goes to stdout. asyncpg prepares every statement, asks for types by
catalog queries, and resets each pooled connection with SQL of its own."""
import asyncio
import datetime
import io
import os

import asyncpg

out = print


async def types(conn):
	await conn.execute("drop table if exists ap; drop type if exists ap_kind, ap_pair;"
		" create type ap_kind as enum ('a', 'b'); create type ap_pair as (x int, y text);"
		' create table ap (id int primary key, k ap_kind, p ap_pair, r int4range, at timestamptz)')
	await conn.execute('insert into ap values ($1, $2, $3, $4, $5)', 1, 'a', (1, 'one'),
		asyncpg.Range(1, 9), datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc))
	out(await conn.fetchrow('select * from ap where id = $1', 1))
	out(await conn.fetchval('select array_agg(k) from ap'))
	await conn.executemany('insert into ap (id, k) values ($1, $2)', [(i, 'b') for i in range(2, 300)])
	out(await conn.fetchval('select count(*) from ap where k = $1', 'b'))
	await conn.set_type_codec('json', encoder=str, decoder=lambda s: ('json', s), schema='pg_catalog')
	out(await conn.fetchval("select '{\"a\": 1}'::json"))


async def statements(conn):
	statement = await conn.prepare('select id, k from ap where id < $1 order by id')
	out(statement.get_parameters(), [a.name for a in statement.get_attributes()])
	out(len(await statement.fetch(10)), await statement.fetchval(3))
	async with conn.transaction():
		seen = 0
		async for record in statement.cursor(100, prefetch=7):
			seen += record['id']
		out(seen)
		cur = await conn.cursor('select id from ap order by id')
		await cur.forward(5)
		out(await cur.fetch(3))
	for i in range(250):  # more statements than its cache and the proxy's per connection hold
		assert await conn.fetchval('select %d + $1::int' % i, 1) == i + 1
	# The table changes under a prepared statement.
	await conn.execute('alter table ap add column extra int')
	out(len(await conn.fetchrow('select * from ap where id = $1', 1)))
	await conn.execute('alter table ap drop column extra')
	out(len(await conn.fetchrow('select * from ap where id = $1', 1)))
	for query, arguments in (('select 1/$1::int', (0,)), ('selec', ()), ('select $1::int', ('x',)),
			('insert into ap (id) values ($1)', (1,))):
		try:
			await conn.fetch(query, *arguments)
		except (asyncpg.PostgresError, asyncpg.DataError) as e:
			out(type(e).__name__, getattr(e, 'sqlstate', ''))


async def transactions(conn):
	try:
		async with conn.transaction():
			await conn.execute('delete from ap')
			try:
				async with conn.transaction():
					await conn.execute('select nothing')
			except asyncpg.UndefinedColumnError:
				out(await conn.fetchval('select count(*) from ap'))
			raise RuntimeError
	except RuntimeError:
		out(await conn.fetchval('select count(*) from ap'))
	async with conn.transaction(isolation='serializable', readonly=True, deferrable=True):
		out(await conn.fetchval('select count(*) from ap'))


async def copies(conn):
	out(await conn.copy_records_to_table('ap', records=[(i, 'a') for i in range(1000, 1100)],
		columns=['id', 'k']))
	sink = io.BytesIO()
	out(await conn.copy_from_query('select id from ap where id >= $1 order by id', 1095, output=sink,
		format='csv'))
	out(sink.getvalue())
	try:
		await conn.copy_to_table('ap', source=io.BytesIO(b'bad\n'), columns=['id'])
	except asyncpg.PostgresError as e:
		out(e.sqlstate)


async def pools():
	async with asyncpg.create_pool(min_size=8, max_size=8,
			server_settings={'application_name': 'ap', 'search_path': 'public'}) as pool:
		async def work(number):
			total = 0
			for i in range(25):
				async with pool.acquire() as conn:
					async with conn.transaction():
						await conn.execute("select set_config('ap.me', $1, true)", str(number))
						assert await conn.fetchval("select current_setting('ap.me')") == str(number)
						total += await conn.fetchval('select $1::int', i)
			return total

		out(sum(await asyncio.gather(*(work(i) for i in range(20)))))


async def waits(conn):
	got = asyncio.get_event_loop().create_future()
	await conn.add_listener('ap_news', lambda c, pid, channel, payload: got.set_result(
		(channel, payload)))
	other = await asyncpg.connect()
	await other.execute("notify ap_news, 'hi'")
	out(await asyncio.wait_for(got, 20))
	await conn.reset()
	try:
		await conn.execute('select pg_sleep(20)', timeout=0.3)
	except asyncio.TimeoutError:
		out('timed out')
	out(await conn.fetchval('select 9'))
	await other.close()


async def main():
	conn = await asyncpg.connect()
	out(conn.get_server_version().major, conn.get_settings().TimeZone)
	await types(conn)
	await statements(conn)
	await transactions(conn)
	await copies(conn)
	await waits(conn)
	await pools()
	await conn.execute('drop table ap; drop type ap_kind, ap_pair')
	await conn.close()


assert os.environ['PGHOST']
asyncio.run(main())
