-- The intents of one event, by consumer, those of the archive with their attempts; number 0 stands for producers, which add theirs themselves.
-- $3: those that were found in files of the archive; one of a purge that did not end is in its table too.
select c.name as consumer, c.number, i.key, i.slot, i.scope, i.class, i.provider, i.destination, coalesce(o.state, case i.state when 'open' then 'scheduled' else i.state end) as state,
    i.created, i.settled, i.scheduled,
    w.waits_for, k.id as cancelled_by, coalesce(o.error, i.error) as error, i.attempts
from (select number, name from {schema}.consumers union all select 0, 'a producer') c
cross join lateral (
    select i.*, null::jsonb as attempts from {schema}.intents i where i.consumer = c.number and i.source = $1 and i.id = $2
    union all
    select kept.*, coalesce(nullif(a.content -> 'attempts', 'null'), '[]')
    from {schema}.archive a cross join lateral jsonb_populate_record(null::{schema}.intents, a.content) kept
    where a.kind = 'intents' and a.content ->> 'id' = $2 and a.content ->> 'source' = $1 and a.consumer = c.number
    union all
    select kept.*, coalesce(nullif(f.content -> 'attempts', 'null'), '[]')
    from jsonb_array_elements($3::jsonb) f (content)
    cross join lateral jsonb_populate_record(null::{schema}.intents, f.content) kept
    where kept.consumer = c.number and kept.source = $1 and kept.id = $2
        and not exists (select from {schema}.intents t where t.key = kept.key)
) i
left join {schema}.outbox o on o.seq = i.seq
left join {schema}.schedule_seen w on w.intent = i.seq
left join {schema}.cancels k on k.key = i.cancelled_by
order by c.name, i.seq
