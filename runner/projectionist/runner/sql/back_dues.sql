-- What a clock that has gone back since made due later than it can be is due in its longest time, and at once what waits
-- for nothing; $2: the longest pause after a failure. What somebody holds is left alone, and taken the next time.
with latest (head, due) as (
    values ('failed', clock_timestamp() + $2::float8 * interval '1 second'),
        ('gap', clock_timestamp() + interval '30 seconds'), ('draining', clock_timestamp())
),
heads as (
    select p.aggregate, l.due from {schema}.positions p join latest l on l.head = p.head
    where p.consumer = $1 and p.due > l.due + interval '1 second'
    order by p.aggregate
    for update of p skip locked
),
moved as (
    update {schema}.positions p set due = h.due from heads h where p.consumer = $1 and p.aggregate = h.aggregate
),
entries as (
    select e.source, e.id, l.due from {schema}.parked e join latest l on l.head = 'failed'
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
    order by incarnation, seq
    for update skip locked
)
update {schema}.quarantine q set due = clock_timestamp()
from asides a where q.consumer = $1 and q.incarnation = a.incarnation and q.seq = a.seq
