-- Makes a parked event without order due later than it is.
update {schema}.parked set due = clock_timestamp() + $4::float8 * interval '1 second'
where consumer = $1 and source = $2 and id = $3 and not ordered
