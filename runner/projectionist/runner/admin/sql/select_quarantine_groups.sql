-- What is in quarantine and alike, the largest group first. What one event brings into the quarantine of several consumers is
-- one thing to act on. One text that all have is whole.
select consumers, cause, why, case when min(own) = max(other) then min(own) end as own, count(*) as count,
    min(oldest) as oldest, min(seq) as sample
from (
    select array_agg(q.name order by q.name) as consumers, q.seq, q.cause, q.why, min(q.received) as oldest,
        min(q.own) as own, max(q.own) as other
    from {schema}.quarantine_seen q join {schema}.consumers c on c.number = q.consumer
    where q.state = 'quarantined' and ($1::text is null or q.name = $1) and ($2::text is null or q.cause = $2)
        and ($3::text is null or $3 in (q.why, q.own, left(encode(sha256(convert_to(q.why, 'UTF8')), 'hex'), 8)))
        and ($4::float8 is null or q.received < clock_timestamp() - $4 * interval '1 second')
    group by c.stream, q.incarnation, q.seq, q.cause, q.why
) each
group by consumers, cause, why
order by count(*) desc, min(oldest), consumers, cause
