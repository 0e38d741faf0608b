-- The generation that is live now.
update {schema}.generations set state = 'live', build = null, kept_until = null where consumer = $1 and generation = $2
