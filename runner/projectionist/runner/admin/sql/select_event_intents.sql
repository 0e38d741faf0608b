-- The intents of one event, by consumer, those of the archive with their attempts; number 0 stands for producers, which add theirs themselves.
select c.name as consumer, c.number, i.key, i.slot, i.class, i.provider, i.destination, coalesce(o.state, i.state) as state,
    i.created, i.settled, coalesce(o.error, i.error) as error, i.attempts
from (select number, name from {schema}.consumers union all select 0, 'a producer') c
cross join lateral (
    select i.*, null::jsonb as attempts from {schema}.intents i where i.consumer = c.number and i.source = $1 and i.id = $2
    union all
    select kept.*, coalesce(nullif(a.content -> 'attempts', 'null'), '[]')
    from {schema}.archive a cross join lateral jsonb_populate_record(null::{schema}.intents, a.content) kept
    where a.kind = 'intents' and a.content ->> 'id' = $2 and a.content ->> 'source' = $1 and a.consumer = c.number
) i
left join {schema}.outbox o on o.seq = i.seq
order by c.name, i.seq
