-- Says what was done about one item of an operation that is locked.
with item as (
    update {schema}.operation_items set state = $3, note = $4 where operation = $1 and place = $2 and state = 'waiting'
    returning state
)
update {schema}.operations o set done = o.done + (item.state = 'done')::integer, refused = o.refused + (item.state = 'refused')::integer
from item where o.number = $1
