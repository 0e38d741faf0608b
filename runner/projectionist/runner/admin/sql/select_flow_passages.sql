-- What became of events with consumers that have them ($1 to $3: consumer, source, id), and what they wait for.
select i.source, i.id, c.name as consumer, i.state, i.verdict, coalesce(i.idle, false) as idle, c.stream, i.incarnation, i.seq,
    i.subject, i.received, i.processed, i.batch, r.host, r.pid,
    s.cause, s.why, s.attempts, s.next_try, s.waits, s.discarded, e.error_class, e.error
from unnest($1::integer[], $2::text[], $3::text[]) asked (consumer, source, id)
join {schema}.inbox i on i.consumer = asked.consumer and i.source = asked.source and i.id = asked.id
join {schema}.consumers c on c.number = i.consumer
left join {schema}.runners r on r.number = i.batch >> 32
left join {schema}.parked_seen s on s.consumer = i.consumer and s.source = i.source and s.id = i.id
left join {schema}.parked e on e.consumer = i.consumer and e.source = i.source and e.id = i.id
order by c.name
