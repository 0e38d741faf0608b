-- Which views batches write is another from here on. Under the exclusive barrier.
with changed as (
    update {schema}.views set state = $2 where number = $1 returning consumer
)
update {schema}.consumers set epoch = epoch + 1 where number = (select consumer from changed)
