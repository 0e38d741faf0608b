-- A rollback was given up: its generation is kept as before.
update {schema}.generations set state = 'kept' where view = $1 and generation = $2
