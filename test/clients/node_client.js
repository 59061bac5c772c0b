// A node-postgres program with its cursor, stream of rows, pool and LISTEN: everything goes to stdout.
'use strict';
const { Client, Pool, types } = require('pg');
const Cursor = require('pg-cursor');
const QueryStream = require('pg-query-stream');
const { from } = require('pg-copy-streams');
const { to } = require('pg-copy-streams');
const { pipeline } = require('node:stream/promises');
const { Readable, Writable } = require('node:stream');

const out = (...what) => console.log(JSON.stringify(what));

async function failing(client, query) {
	try {
		await client.query(query);
		out('no error');
	} catch (e) {
		out(e.code, e.severity, e.position, e.constraint, e.message);
	}
}

async function statements(client) {
	await client.query('drop table if exists nd');
	await client.query('create table nd (id int primary key, v text, j jsonb, at timestamptz)');
	for (let i = 0; i < 60; i++) {
		await client.query({ name: 'put', text: 'insert into nd values ($1, $2, $3, $4)',
			values: [i, 'v' + i, { n: i }, new Date(1e12)] });
	}
	const named = await client.query({ name: 'get', text: 'select * from nd where id = $1', values: [7] });
	out(named.rows, named.fields.map((f) => [f.name, f.dataTypeID, f.format]));
	out((await client.query({ text: 'select id, v from nd where id < $1 order by id', values: [3],
		rowMode: 'array' })).rows);
	out((await client.query({ text: 'select id from nd where id = $1', values: [5], binary: true })).rows);
	const many = await client.query("select 1 as a; update nd set v = 'x' where id < 3; select 2 as b");
	out(many.map((r) => [r.command, r.rowCount, r.rows]));
	// Sent without waiting for each other.
	const all = await Promise.all([1, 2, 3, 4].map((i) => client.query('select $1::int as i', [i])));
	out(all.map((r) => r.rows[0].i));
	for (const text of ['select 1/0', 'selec', 'insert into nd values (1)', 'select $1::int']) {
		await failing(client, text);
	}
	await failing(client, { text: 'select $1::int', values: ['x'] });
	await failing(client, { name: 'bad', text: 'select nothing', values: [] });
	await failing(client, { name: 'bad2', text: 'select 5 as five', values: [] });
}

async function transactions(client) {
	await client.query('BEGIN');
	await client.query("insert into nd values (1000, 'mine')");
	await client.query('SAVEPOINT a');
	await failing(client, 'select 1/0');
	await failing(client, 'select 1');
	await client.query('ROLLBACK TO SAVEPOINT a');
	out((await client.query('select count(*)::int from nd')).rows);
	await client.query('ROLLBACK');
	out((await client.query('select count(*)::int from nd')).rows);
}

async function cursors(client) {
	const cursor = client.query(new Cursor('select id from nd where id >= $1 order by id', [50]));
	out((await cursor.read(4)).map((r) => r.id));
	out((await cursor.read(100)).map((r) => r.id), (await cursor.read(1)).length);
	await cursor.close();
	const early = client.query(new Cursor('select generate_series(1, 100000) as i'));
	out((await early.read(2)).map((r) => r.i));
	await early.close();
	const broken = client.query(new Cursor('select 1 / (3 - i) as q from generate_series(1, 9) i'));
	out((await broken.read(2)).map((r) => r.q));
	try {
		await broken.read(2);
	} catch (e) {
		out(e.code);
	}
	let sum = 0;
	for await (const row of client.query(new QueryStream('select id from nd', [], { batchSize: 11 }))) {
		sum += row.id;
	}
	out(sum);
}

async function copies(client) {
	await pipeline(Readable.from(Array.from({ length: 500 }, (_, i) => `${2000 + i}\tc\n`)),
		client.query(from('copy nd (id, v) from stdin')));
	let text = '';
	await pipeline(client.query(to('copy (select id from nd where id > 2495 order by 1) to stdout')),
		new Writable({ write(chunk, _, next) { text += chunk; next(); } }));
	out(text);
	try {
		await pipeline(Readable.from(['bad\tx\n']), client.query(from('copy nd (id, v) from stdin')));
	} catch (e) {
		out(e.code);
	}
	out((await client.query('select count(*)::int as n from nd')).rows);
}

async function notifications(client) {
	const heard = new Promise((done) => client.once('notification', done));
	await client.query('LISTEN nd_news');
	const other = new Client();
	await other.connect();
	await other.query("NOTIFY nd_news, 'hello'");
	const { channel, payload } = await heard;
	out(channel, payload);
	await client.query('UNLISTEN nd_news');
	await other.end();
	const noticed = new Promise((done) => client.once('notice', done));
	await client.query("do $$ begin raise notice 'seen'; end $$");
	out((await noticed).message);
}

async function pools() {
	const pool = new Pool({ max: 12, statement_timeout: 20000 });
	const results = await Promise.all(Array.from({ length: 100 }, async (_, i) => {
		const c = await pool.connect();
		try {
			await c.query('begin');
			await c.query("select set_config('nd.me', $1, true)", [String(i)]);
			const r = await c.query("select current_setting('nd.me') as me");
			await c.query('commit');
			return Number(r.rows[0].me);
		} finally {
			c.release();
		}
	}));
	out(results.reduce((a, b) => a + b, 0));
	out((await pool.query('show statement_timeout')).rows);
	await pool.end();
}

(async () => {
	const client = new Client({ application_name: 'node' });
	await client.connect();
	out((await client.query('show application_name')).rows);
	await statements(client);
	await transactions(client);
	await cursors(client);
	await copies(client);
	await notifications(client);
	await pools();
	await client.query('drop table nd');
	await client.end();
	out(types.builtins.INT4);
})().catch((e) => { console.log('FAILED', e); process.exit(1); });
