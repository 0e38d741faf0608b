-- Removes from pages [$1, $2) intents that were sent or discarded before $6, and that their provider has forgotten, with
-- their attempts. For the rest see purge_inbox.
with due as materialized (
    select i.ctid as place, i.*,
        (select jsonb_agg(to_jsonb(a) order by a.attempt) from {schema}.attempts a where a.intent = i.seq) as attempts
    from {schema}.intents i
    where i.ctid >= $1::tid and i.ctid < $2::tid
        and i.consumer = any($5::integer[]) and i.state in ('sent', 'discarded', 'cancelled') and i.settled < $6::timestamptz
        and coalesce(i.first_started, i.settled) + least(coalesce(i.memory_s, 0), 1e9) * interval '1 second'
            < $7::timestamptz
        and not exists (select from {schema}.outbox o where o.seq = i.seq offset 0)
),
gone as (
    delete from {schema}.intents where not $3::boolean and ctid = any(array(select place from due))
),
tries as (
    delete from {schema}.attempts where not $3 and intent = any(array(select seq from due))
),
later as (
    delete from {schema}.schedule where not $3 and intent = any(array(select seq from due))
),
kept as (
    insert into {schema}.archive (kind, consumer, content)
    select 'intents', consumer, to_jsonb(due) - 'place' from due where $4::text = 'table' and not $3
)
select consumer, count(*) as rows,
    case when $4 = 'files' then string_agg((to_jsonb(due) - 'place')::text, E'\n') end as lines
from due group by consumer
