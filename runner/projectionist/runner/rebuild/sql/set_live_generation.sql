-- The live generation of a view is another one from here on, and no build is open.
with swapped as (
    update {schema}.views set generation = $2, revision = $3, shape = $4, code = $5 where number = $1 returning consumer
)
update {schema}.consumers set build = null, epoch = epoch + 1 where number = (select consumer from swapped)
