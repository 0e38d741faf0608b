-- Which messages above the floor batches have settled, as runs in order.
with f as (
    select floor, incarnation from {schema}.floors where consumer = $1 and durable = $2
), held as (
    select s.* from {schema}.settled s join f on f.incarnation = s.incarnation
    where s.consumer = $1 and s.highest > f.floor
), spans as (
    select int8range(lowest, highest, '[]') as span from held where seqs is null
    union all select int8range(seq, seq, '[]') from held cross join unnest(seqs) as seq
), runs as (
    select lower(run) as first, upper(run) - 1 as last from unnest((select range_agg(span) from spans)) as run
)
select f.floor, coalesce((select array_agg(first order by first) from runs), '{}') as firsts,
    coalesce((select array_agg(last order by first) from runs), '{}') as lasts
from f
