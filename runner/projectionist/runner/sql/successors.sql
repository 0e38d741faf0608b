-- The first parked entries behind each head that may move; at most $4 of each.
select p.source, p.id, p.cause, p.aggregate, p.version, p.incarnation, p.seq, p.subject, p.type, p.event_schema,
    p.event_time, p.correlation, p.causation, p.traceparent, p.tracestate, p.hash, p.data, p.problem, p.attempts,
    p.budget, p.discarded
from unnest($2::text[], $3::bigint[]) as head (aggregate, version)
cross join lateral (
    select * from {schema}.parked
    where parked.consumer = $1 and parked.aggregate = head.aggregate and parked.ordered
        and parked.version > head.version
    order by parked.version
    limit $4
) p
