-- What became of the items that were tried, for an operation that is locked: gone from where they waited, or failed again.
with judged as (
    update {schema}.operation_items i
    set state = case when seen.gone then 'done' else 'failed' end
    from (
        select t.place, e.id is null as gone from {schema}.operation_items t
        left join {schema}.parked e on e.consumer = t.consumer and e.source = t.source and e.id = t.id
        where t.operation = $1 and t.state = 'tried' and (e.id is null or e.attempts > t.attempts)
    ) seen
    where i.operation = $1 and i.place = seen.place
    returning i.state
),
counted as (
    select count(*) filter (where state = 'done') as done, count(*) filter (where state = 'failed') as failed from judged
)
update {schema}.operations o set done = o.done + counted.done, failed = o.failed + counted.failed
from counted where o.number = $1
returning counted.done + counted.failed as judged
