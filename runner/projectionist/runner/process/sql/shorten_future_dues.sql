-- What a clock that has gone back since made due later than it can be is due in its longest time, and at once what waits
-- for nothing; $2: the longest pause after a failure, $3: after one of the classes $4. What somebody holds is left alone,
-- and taken the next time.
with latest (head, slow, due) as (
    values ('failed', false, clock_timestamp() + $2::float8 * interval '1 second'),
        ('failed', true, clock_timestamp() + $3::float8 * interval '1 second'),
        ('gap', false, clock_timestamp() + interval '30 seconds'), ('draining', false, clock_timestamp())
),
heads as (
    select p.aggregate, l.due from {schema}.positions p
    join latest l on l.head = p.head and l.slow = (p.head = 'failed' and exists (
        select from {schema}.parked e
        where e.consumer = p.consumer and e.aggregate = p.aggregate and e.ordered and e.cause = 'failed'
            and e.error_class = any($4::text[])
    ))
    where p.consumer = $1 and p.due > l.due + interval '1 second'
    order by p.aggregate
    for update of p skip locked
),
moved as (
    update {schema}.positions p set due = h.due from heads h where p.consumer = $1 and p.aggregate = h.aggregate
),
entries as (
    select e.source, e.id, l.due from {schema}.parked e
    join latest l on l.head = 'failed' and l.slow = coalesce(e.error_class = any($4::text[]), false)
    where e.consumer = $1 and e.due > l.due + interval '1 second'
    order by e.source, e.id
    for update of e skip locked
),
parked as (
    update {schema}.parked e set due = n.due
    from entries n where e.consumer = $1 and e.source = n.source and e.id = n.id
),
asides as (
    select incarnation, seq from {schema}.quarantine
    where consumer = $1 and due > clock_timestamp() + interval '1 second'
            + case when reason = 'refused' then $3::float8 else 0 end * interval '1 second'
    order by incarnation, seq
    for update skip locked
)
update {schema}.quarantine q set due = clock_timestamp()
from asides a where q.consumer = $1 and q.incarnation = a.incarnation and q.seq = a.seq
