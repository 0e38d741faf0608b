-- Says what was done about one item of an operation that is locked, and counts it.
with item as (
    update {schema}.operation_items set state = $3, note = $4 where operation = $1 and place = $2 and state = 'waiting'
    returning alike, sample, (state = 'tried')::integer as tried, (state = 'done')::integer as done, (state = 'refused')::integer as refused
),
sampled as (
    update {schema}.operation_samples s
    set tried = s.tried + item.tried, done = s.done + item.done, refused = s.refused + item.refused,
        open = s.items > s.done + s.failed + s.refused + s.left_alone + item.done + item.refused
    from item where s.operation = $1 and s.alike = item.alike and s.sample = item.sample
)
update {schema}.operations o set done = o.done + item.done, refused = o.refused + item.refused
from item where o.number = $1
