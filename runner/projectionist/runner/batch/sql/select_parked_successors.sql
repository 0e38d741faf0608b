-- The first parked entries behind each head that may move: at most so many of each, and none once $5 bytes are reached.
select p.source, p.id, p.cause, p.aggregate, p.version, p.incarnation, p.seq, p.subject, p.type, p.event_schema,
    p.event_time, p.correlation, p.causation, p.traceparent, p.tracestate, p.hash, p.data, p.problem, p.attempts,
    p.budget, p.discarded, p.baggage
from unnest($2::text[], $3::bigint[], $4::integer[]) as head (aggregate, version, reach)
cross join lateral (
    select *, coalesce(sum(octet_length(data)) over (
        order by version rows between unbounded preceding and 1 preceding
    ), 0) as bytes_before
    from (
        select * from {schema}.parked
        where parked.consumer = $1 and parked.aggregate = head.aggregate and parked.ordered
            and parked.version > head.version
        order by parked.version
        limit head.reach
    ) first
) p
where p.bytes_before < $5
order by p.aggregate, p.version
