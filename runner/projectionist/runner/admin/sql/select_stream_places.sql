-- Under which sequences of which streams the events of an aggregate ($1) or an event ($2, $3) came, as far as it is known; and
-- whether a consumer still needs the message, because it has not settled it.
select c.stream, x.seq, bool_or(x.waits) as waits
from {schema}.consumers c
cross join lateral (
    select i.incarnation, i.seq, i.state = 'parked' as waits from {schema}.inbox i
    where i.consumer = c.number and (i.aggregate = $1 or i.source = $2 and i.id = $3)
    union all
    select u.incarnation, u.seq, false from {schema}.inbox i
    join {schema}.duplicates u on u.consumer = i.consumer and u.source = i.source and u.id = i.id
    where i.consumer = c.number and (i.aggregate = $1 or i.source = $2 and i.id = $3)
    union all
    select q.incarnation, q.seq, q.state = 'quarantined' from {schema}.quarantine q
    where q.consumer = c.number and (q.aggregate = $1 or q.source = $2 and q.id = $3)
    union all
    select (a.content ->> 'incarnation')::integer, (a.content ->> 'seq')::bigint, false from {schema}.archive a
    where a.kind = 'inbox' and a.consumer = c.number
        and (a.content ->> 'aggregate' = $1 or a.content ->> 'id' = $3 and a.content ->> 'source' = $2)
) x
where x.incarnation = c.incarnation
group by c.stream, x.seq
order by c.stream, x.seq
