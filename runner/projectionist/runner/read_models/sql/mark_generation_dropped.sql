-- The tables of a generation are gone.
update {schema}.generations set state = 'dropped', build = null, kept_until = null where consumer = $1 and generation = $2
