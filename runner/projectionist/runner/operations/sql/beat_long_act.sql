-- Says how far a long act is, which is its sign of life; none if it is not carried out under this epoch any more.
update {schema}.operations set beat = clock_timestamp(), phase = $3, matched = $4, done = $5, per_s = $6
where number = $1 and epoch = $2 and ended is null
returning stop_asked_by, stop_reason
