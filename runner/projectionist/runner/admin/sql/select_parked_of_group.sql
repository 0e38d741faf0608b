-- The first parked events of one group, in the order of the stream.
with few as materialized (
    select consumer, source, id, incarnation, seq from {schema}.parked
    where consumer = (select number from {schema}.consumers where name = $1) and cause = $2 and type = $3 and alike = $4
    order by incarnation, seq limit $5
)
select s.consumer, $1 as name, s.source, s.id, s.type, s.aggregate, s.version, s.ordered, s.cause, s.why, s.own, s.attempts, s.parked_at,
    s.next_try, s.position, s.head, s.finding, s.heads, s.waits
from few f
cross join lateral (
    select * from {schema}.parked_seen where consumer = f.consumer and source = f.source and id = f.id limit 1
) s
order by f.incarnation, f.seq
