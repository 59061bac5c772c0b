-- What people do in psql, in one session. Run straight at a server and through the proxy: the two
-- outputs must be equal.
\set ON_ERROR_STOP 0
\set VERBOSITY verbose
\set SHOW_CONTEXT always
\pset pager off
\pset linestyle ascii
\pset null '(null)'
\encoding UTF8
\echo :ENCODING :SERVER_VERSION_NUM :DBNAME :USER
create schema shop;
set search_path to shop, public;
create type mood as enum ('sad', 'ok', 'happy');
create table item (id int generated always as identity primary key, name text not null unique,
	price numeric(10,2) check (price >= 0), m mood default 'ok', tags text[], extra jsonb);
create index on item (price desc nulls last) where price > 0;
comment on table item is 'things to sell';
create view cheap as select * from item where price < 10;
create function twice(n int) returns int language sql immutable as 'select n * 2';
insert into item (name, price, tags, extra) values ('nail', 0.10, '{a,b}', '{"x": [1, 2]}'),
	('saw', 25, null, null), (U&'\00FCnl', 3.5, '{}', '{}') returning id, name, m;
\d
\dt+ shop.*
\d item
\d+ cheap
\df twice
\sf twice
\dT+ mood
\dn
\di+
\dp item
\l app
\du app
\x on
select * from item order by id limit 1;
\x auto
\x off
\pset format csv
table item;
\pset format unaligned
table cheap;
\pset format aligned
\t on
select name from item order by 1;
\t off
-- Variables and results as commands.
select count(*) as n, max(price) as top from item \gset got_
\echo :got_n :got_top
select format('select %L as word', w) from unnest(array['a', $$b'c$$]) w \gexec
select 1 as a \g (format=unaligned tuples_only=on)
select 'x' as a, 'y' as b, 1 as c union all select 'x', 'z', 2 \crosstabview
\set quoted 'it''s'
select :'quoted' as q, :"got_n" from (select 3 as "3") s;
\if :{?got_n}
select 'branch taken' as branch;
\else
select 'never';
\endif
select 1 \; select 2 \; select 1/0 \; select 3;
\gdesc
select 1::int2 as a, 'x'::varchar(7) as b, now() as c \gdesc
-- Errors with all their parts.
insert into item (name, price) values ('nail', 1);
insert into item (name, price) values ('bad', -1);
insert into item (name) values (null);
select nope from item;
select * from item where id = 'x';
do $$ begin raise exception 'own' using detail = 'd', hint = 'h', errcode = 'P0099', table = 't'; end $$;
\errverbose
-- Transactions, with psql's own savepoints.
\set ON_ERROR_ROLLBACK on
begin;
insert into item (name, price) values ('file', 7);
insert into item (name, price) values ('file', 8);
select count(*) from item;
commit;
\set ON_ERROR_ROLLBACK off
begin;
select 1/0;
select 1;
rollback;
\set AUTOCOMMIT off
insert into item (name, price) values ('lost', 1);
rollback;
\set AUTOCOMMIT on
select name from item order by id;
-- Rows in parts, through a cursor.
\set FETCH_COUNT 3
select i, repeat('r', i % 5) from generate_series(1, 10) i;
\set FETCH_COUNT 0
-- COPY in both directions, good and bad.
create table raw (i int, t text);
copy raw from stdin;
1	one
2	two\twith tab
3	\N
\.
copy raw from stdin with (format csv, header);
i,t
4,"quoted, with ""marks"""
\.
copy raw from stdin;
not a number	x
\.
\copy (select * from raw order by i) to stdout with (format csv, force_quote *)
copy raw to stdout;
copy (select i from raw where i > 100) to stdout;
select count(*) from raw;
-- Settings and roles.
set datestyle to german, dmy;
select date '2024-02-03';
show datestyle;
set intervalstyle to iso_8601;
select interval '1 day 2 hours';
reset all;
set search_path to shop;
set timezone to 'Asia/Kolkata';
select timestamptz '2024-01-01 00:00+00';
\encoding LATIN1
select length(name) from item order by id desc limit 1;
\encoding UTF8
set role app;
select current_user, session_user;
reset role;
-- Prepared statements, cursors, temporary tables, large objects, notifications.
prepare find (int) as select name from item where id = $1;
execute find(1);
execute find(2);
deallocate find;
execute find(3);
begin;
declare c cursor for select i from generate_series(1, 5) i;
fetch 2 from c;
move 1 in c;
fetch all from c;
close c;
commit;
declare h cursor with hold for select 1 as one union all select 2;
fetch next from h;
fetch next from h;
close h;
create temp table scratch as select 1 as a;
select * from scratch;
drop table scratch;
begin;
\lo_unlink 1
rollback;
explain (costs off) select * from item where id = 1;
explain (analyze, costs off, timing off, summary off) select count(*) from raw;
discard all;
set search_path to shop;
select lastval() > 0 as f;
\timing off
\echo :SQLSTATE :ROW_COUNT :LAST_ERROR_SQLSTATE
drop schema shop cascade;
