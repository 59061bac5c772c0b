-- Parameters and pipelines, which psql has had since 16 and 18.
\bind 3 'it''s'
select $1::int + 1 as n, $2 as t \g
select $1::int as a \bind 5 \g
select $1 \bind x \g
insert into nowhere values ($1) \bind 1 \g
