-- Up to which stream sequence the handlers of a SqlProjection have run.
update {schema}.builds set checkpoint = $2, touched = clock_timestamp() where number = $1
