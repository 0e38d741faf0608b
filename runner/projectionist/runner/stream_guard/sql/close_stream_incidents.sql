-- Closes what has been decided about a consumer's stream.
update {schema}.incidents set closed = clock_timestamp()
where consumer = $1 and kind like 'stream\_%' and closed is null
