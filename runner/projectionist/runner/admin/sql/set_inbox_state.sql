-- The state of one inbox row after an action.
update {schema}.inbox set state = $4, processed = clock_timestamp() where consumer = $1 and source = $2 and id = $3
