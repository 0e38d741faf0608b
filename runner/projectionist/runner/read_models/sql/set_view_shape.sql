-- The shape that a view's tables have now, and the names that its class and its consumer have.
with shaped as (
    update {schema}.views set name = $2, shape = $3 where number = $1 returning consumer
)
update {schema}.consumers set name = $4, epoch = epoch + 1 where number = (select consumer from shaped)
