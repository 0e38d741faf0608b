-- The live generation is another one from here on.
update {schema}.consumers
set generation = $2, revision = $3, shape = $4, code = $5, build = null, epoch = epoch + 1
where number = $1
