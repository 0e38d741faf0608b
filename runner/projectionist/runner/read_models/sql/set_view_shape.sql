-- The shape that a view's tables have now, the names that its class and its consumer have, and the views it looks up.
with shaped as (
    update {schema}.views set name = $2, shape = $3, looks_up = $5 where number = $1 returning consumer
)
update {schema}.consumers set name = $4, epoch = epoch + 1 where number = (select consumer from shaped)
