-- Messages up to here are gone from the stream, which has been told.
update {schema}.floors set seen = $3 where consumer = $1 and durable = $2 and seen < $3
