-- The bytes of a reference, fetched from the stream, or why they cannot be had.
update {schema}.parked set data = $4, problem = $5
where consumer = $1 and source = $2 and id = $3 and data is null
