-- Intents one by one, the oldest first.
select seq, key, state, provider, destination, class, consumer, aggregate, attempt, created, due, error
from (
    select i.seq, i.key, i.provider, i.destination, i.class, c.name as consumer, i.aggregate, i.attempt, i.created,
        i.due, i.error, case when i.state = 'ready' and b.held is not null then 'held' else i.state end as state
    from {schema}.intents i
    left join {schema}.breakers b on b.provider = i.provider and b.destination = i.destination
    left join {schema}.consumers c on c.number = i.consumer
    where ($1::text[] is not null or i.open or (not i.open and i.error is not null))
        and ($2::text is null or i.provider = $2) and ($3::text is null or i.destination = $3)
        and ($4::text is null or i.class = $4) and ($5::text is null or c.name = $5)
        and ($6::text is null or i.error = $6)
        and ($7::float8 is null or i.created < clock_timestamp() - make_interval(secs => $7))
) as seen
where state = any (coalesce($1, '{ready,leased,started,unknown,reconcile,dead,held}'::text[]))
order by seq
limit $8
