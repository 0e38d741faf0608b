-- Which of the parked events that due heads come to next left their bytes in the stream; $3 of all heads together, nearest
-- first, and at least one of each. Positions are found by their key, whatever stands at their heads.
with stand as materialized (
    select aggregate, version, head from {schema}.positions
    where consumer = $1 and aggregate = any($2::text[])
), head as materialized (
    select aggregate, version from stand where head in ('failed', 'draining')
)
select p.source, p.id, p.aggregate, p.version, p.incarnation, p.seq, p.type, p.event_schema, p.hash
from head
cross join lateral (
    select * from {schema}.parked
    where parked.consumer = $1 and parked.aggregate = head.aggregate and parked.ordered
        and parked.version > head.version
    order by parked.version
    limit greatest(1, $3::integer / (select count(*) from head))
) p
where p.data is null and not p.discarded
order by p.version - head.version, p.aggregate
