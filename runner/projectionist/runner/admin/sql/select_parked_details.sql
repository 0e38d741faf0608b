-- Everything about the parked events of one id, with their bytes.
select s.consumer, s.name, s.source, s.id, s.type, e.event_schema, s.aggregate, s.version, s.ordered, s.cause, s.why, s.heads,
    s.waits, s.discarded, s.position, s.head, s.finding, s.attempts, s.budget, s.next_try, s.parked_at, s.first_failed,
    s.last_failed, e.error_class, e.error, e.problem, e.stack, e.incarnation, e.seq, e.subject, e.event_time, e.correlation,
    e.causation, e.traceparent, e.tracestate, e.hash, e.edited_hash, i.received, e.data
from {schema}.parked_seen s
join {schema}.parked e on e.consumer = s.consumer and e.source = s.source and e.id = s.id
left join {schema}.inbox i on i.consumer = s.consumer and i.source = s.source and i.id = s.id
where s.id = $1 and ($2::text is null or s.name = $2) and ($3::text is null or s.source = $3)
order by s.name, s.source
