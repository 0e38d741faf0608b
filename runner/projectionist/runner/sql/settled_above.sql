-- How many messages above the floor and up to $3 batches have settled. One snapshot: whoever raises the floor removes what
-- lies below it.
with f as (
    select floor, acked, incarnation from {schema}.floors where consumer = $1 and durable = $2
), held as (
    select s.* from {schema}.settled s join f on f.incarnation = s.incarnation
    where s.consumer = $1 and s.highest > f.floor and s.lowest <= $3
), spans as (
    select int8range(lowest, highest, '[]') as span from held where seqs is null
    union all select int8range(seq, seq, '[]') from held cross join unnest(seqs) as seq
)
select f.floor, f.acked, (
    select coalesce(sum(upper(run) - lower(run)), 0)::bigint
    from unnest((
        select range_agg(span) * int8multirange(int8range(f.floor + 1, greatest(f.floor, $3) + 1)) from spans
    )) as run
) as settled
from f
