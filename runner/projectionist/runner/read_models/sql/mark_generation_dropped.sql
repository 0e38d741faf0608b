-- The tables of a generation are gone: no build is about it, and no time is set for it.
update {schema}.generations set state = 'dropped', build = null, kept_until = null where view = $1 and generation = $2
