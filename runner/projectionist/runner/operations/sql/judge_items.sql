-- What became of the items that were tried, for an operation that is locked: gone from where they waited, or failed again. What
-- somebody else has decided about meanwhile is refused ($2 says so).
with seen as (
    select t.place, case
        when t.intent is not null then case
            when n.state = 'sent' then 'done'
            when n.state is null or n.state in ('discarded', 'cancelled') then 'refused'
            when o.attempt > t.attempts and o.state not in ('leased', 'started') then 'failed'
        end
        when t.seq is null and e.id is null then case when x.state in ('applied', 'ignored', 'stale') then 'done' else 'refused' end
        when t.seq is not null and q.state is distinct from 'quarantined'
            then case when q.state in ('discarded', 'erased') or q.state is null then 'refused' else 'done' end
        when coalesce(e.attempts, q.attempts) > t.attempts then 'failed'
    end as state
    from {schema}.operation_items t
    left join {schema}.parked e on t.seq is null and e.consumer = t.consumer and e.source = t.source and e.id = t.id
    left join {schema}.inbox x on t.seq is null and x.consumer = t.consumer and x.source = t.source and x.id = t.id
    left join {schema}.quarantine q
        on t.seq is not null and q.consumer = t.consumer and q.incarnation = t.incarnation and q.seq = t.seq
    left join {schema}.intents n on n.seq = t.intent
    left join {schema}.outbox o on o.seq = t.intent
    where t.operation = $1 and t.state = 'tried'
),
judged as (
    update {schema}.operation_items i
    set state = seen.state, note = case when seen.state = 'refused' then $2 end
    from seen where i.operation = $1 and i.place = seen.place and seen.state is not null
    returning i.alike, i.sample, i.state
),
counted as (
    select alike, sample, count(*) as items, count(*) filter (where state = 'done') as done,
        count(*) filter (where state = 'failed') as failed, count(*) filter (where state = 'refused') as refused
    from judged group by alike, sample
),
sampled as (
    update {schema}.operation_samples s
    set tried = s.tried - n.items, done = s.done + n.done, failed = s.failed + n.failed, refused = s.refused + n.refused,
        open = s.items > s.done + s.failed + s.refused + s.left_alone + n.items
    from counted n where s.operation = $1 and s.alike = n.alike and s.sample = n.sample
)
update {schema}.operations o set done = o.done + n.done, failed = o.failed + n.failed, refused = o.refused + n.refused
from (
    select coalesce(sum(items), 0)::bigint as items, coalesce(sum(done), 0)::bigint as done,
        coalesce(sum(failed), 0)::bigint as failed, coalesce(sum(refused), 0)::bigint as refused
    from counted
) n where o.number = $1
returning n.items as judged
