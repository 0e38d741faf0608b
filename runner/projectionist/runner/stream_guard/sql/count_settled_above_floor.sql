-- How many messages above the floor and up to $3 batches have settled. One snapshot: whoever raises the floor removes what
-- lies below it. Single messages are counted as numbers, which costs a fraction of what they cost as ranges; where they take
-- more than $4 bytes, because the floor has stood for long, nothing is counted.
with f as (
    select floor, acked, incarnation from {schema}.floors where consumer = $1 and durable = $2
), held as (
    select s.lowest, s.highest, s.seqs from {schema}.settled_batches s join f on f.incarnation = s.incarnation
    where s.consumer = $1 and s.highest > f.floor and s.lowest <= $3
), size as (
    select coalesce(sum(pg_column_size(seqs)), 0) <= $4 as small from held
), whole as (
    select coalesce(
        range_agg(int8range(lowest, highest, '[]'))
        * int8multirange(int8range((select floor from f) + 1, greatest((select floor from f), $3) + 1)), '{}'
    ) as runs
    from held where seqs is null
), single as (
    select distinct seq from held cross join unnest(seqs) as seq
    where seq > (select floor from f) and seq <= $3 and (select small from size)
)
select f.floor, f.acked,
    case when small then
        (select coalesce(sum(upper(run) - lower(run)), 0)::bigint from whole cross join unnest(whole.runs) as run)
        + (select count(*) from single where not seq <@ (select runs from whole))
    end as settled
from f cross join size
