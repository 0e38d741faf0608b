-- What became of the items that were tried, for an operation that is locked: gone from where they waited, or failed again.
with judged as (
    update {schema}.operation_items i
    set state = case when seen.gone then 'done' else 'failed' end
    from (
        select t.place, t.attempts as before, coalesce(e.attempts, q.attempts) as attempts,
            case when t.seq is null then e.id is null else q.state <> 'quarantined' end as gone
        from {schema}.operation_items t
        left join {schema}.parked e on t.seq is null and e.consumer = t.consumer and e.source = t.source and e.id = t.id
        left join {schema}.quarantine q
            on t.seq is not null and q.consumer = t.consumer and q.incarnation = t.incarnation and q.seq = t.seq
        where t.operation = $1 and t.state = 'tried'
    ) seen
    where i.operation = $1 and i.place = seen.place and (seen.gone or seen.attempts > seen.before)
    returning i.state
),
counted as (
    select count(*) filter (where state = 'done') as done, count(*) filter (where state = 'failed') as failed from judged
)
update {schema}.operations o set done = o.done + counted.done, failed = o.failed + counted.failed
from counted where o.number = $1
returning counted.done + counted.failed as judged
