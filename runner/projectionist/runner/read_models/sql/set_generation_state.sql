-- The generation is live now, or its tables are gone: no build is about it, and no time is set for it.
update {schema}.generations set state = $3, build = null, kept_until = null where view = $1 and generation = $2
