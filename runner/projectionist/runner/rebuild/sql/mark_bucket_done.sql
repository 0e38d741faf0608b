-- One more bucket of row keys is in the shadow.
update {schema}.builds set finished = finished || $2::integer, touched = clock_timestamp() where number = $1
