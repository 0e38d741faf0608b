-- The same without order: the marks are the sequences.
insert into {schema}.build_steps (build, n, seq)
select $1, row_number() over (order by seq), seq
from (select distinct mark::bigint as seq from {schema}.dirty_marks where consumer = $2 and slot = any($3::smallint[])) d
