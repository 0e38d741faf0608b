-- The caps are there: the bulk may begin.
update {schema}.builds set phase = 'bulk', bulk_limit = $2, buckets = $3, touched = clock_timestamp() where number = $1
