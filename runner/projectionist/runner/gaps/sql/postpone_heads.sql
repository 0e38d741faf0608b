-- Makes heads due later than they are. The positions are locked.
update {schema}.positions set due = clock_timestamp() + $3::float8 * interval '1 second'
where consumer = $1 and aggregate = any($2::text[])
