-- Parked entries without order that are due, still.
select source, id, cause, aggregate, version, incarnation, seq, subject, type, event_schema,
    event_time, correlation, causation, traceparent, tracestate, hash, data, problem, attempts, budget, discarded, baggage
from {schema}.parked
where consumer = $1 and source = any($2::text[]) and id = any($3::text[]) and not ordered
    and due <= clock_timestamp()
order by source, id
for update
