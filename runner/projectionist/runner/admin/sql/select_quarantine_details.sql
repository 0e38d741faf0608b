-- Everything about what one stream sequence has brought into quarantine, of the newest incarnation unless $3 says which.
select q.consumer, c.name, c.stream, q.incarnation, q.seq, q.state, q.reason as cause, q.detail, q.subject, q.source, q.id,
    q.aggregate, q.version, q.attempts, q.due, q.size, q.received, q.hash, q.edit, q.headers, q.data
from {schema}.quarantine q join {schema}.consumers c on c.number = q.consumer
where q.seq = $1 and ($2::text is null or c.name = $2)
    and q.incarnation = coalesce($3::bigint, (
        select max(o.incarnation) from {schema}.quarantine o where o.consumer = q.consumer and o.seq = q.seq
    ))
order by c.name
