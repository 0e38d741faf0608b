-- Intents that are alike, by state, provider and error: how many, since when, and one of them.
select state, provider, error, count(*) as count, min(created) as oldest, (array_agg(key order by seq))[1] as sample
from (
    select i.seq, i.key, i.provider, i.error, i.created,
        case when i.state = 'ready' and b.held is not null then 'held' else i.state end as state
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
group by state, provider, error
order by count desc, oldest
