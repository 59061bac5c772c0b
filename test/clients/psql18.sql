select $1::int * $2::int as product \parse by_name
\bind_named by_name 6 7 \g
\bind_named by_name 8 9 \g
\close_prepared by_name
\bind_named by_name 1 1 \g
\startpipeline
select 1 as one \bind \sendpipeline
select 2 as two \bind \sendpipeline
\syncpipeline
select 1/$1::int \bind 0 \sendpipeline
select 3 as three \bind \sendpipeline
\syncpipeline
select 4 as four \bind \sendpipeline
\endpipeline
select 'after' as state;
