-- Intents one by one, the oldest first.
select seq, key, state, provider, destination, class, scope, consumer, aggregate, attempt, created, due, error
from (
    select i.seq, i.key, i.provider, i.destination, i.class, i.scope, c.name as consumer, i.aggregate,
        coalesce(o.attempt, i.attempt) as attempt, i.created, coalesce(o.due, i.scheduled) as due, coalesce(o.error, i.error) as error,
        case when o.state = 'ready' and b.held is not null then 'held' else coalesce(o.state, case i.state when 'open' then 'scheduled' else i.state end) end as state
    from {schema}.intents i
    left join {schema}.outbox o on o.seq = i.seq
    left join {schema}.circuits b on b.provider = o.provider and b.destination = o.destination
    left join {schema}.consumers c on c.number = i.consumer
    where (
            coalesce($1::text[] && '{sent,discarded,cancelled}'::text[], false)
            or i.seq = any (array(
                select seq from {schema}.outbox union all
                select intent from {schema}.schedule where look is not null and promoted is null
            ))
        )
        and ($2::text is null or i.provider = $2) and ($3::text is null or $3 in (i.destination, left(encode(sha256(convert_to(i.destination, 'UTF8')), 'hex'), 8)))
        and ($4::text is null or i.class = $4) and ($5::text is null or c.name = $5)
        and ($6::text is null or $6 in (o.error, left(encode(sha256(convert_to(o.error, 'UTF8')), 'hex'), 8)))
        and ($7::float8 is null or i.created < clock_timestamp() - make_interval(secs => $7))
) as seen
where $1 is null or state = any ($1)
order by seq
limit $8
