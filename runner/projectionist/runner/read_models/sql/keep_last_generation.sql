-- What a view showed last is kept until somebody drops it: nothing brings it to where the others are.
update {schema}.generations set state = 'kept', build = null, kept_until = null where view = $1 and state = 'live'
