-- Whether an event has been committed.
select exists (select from {schema}.inbox where consumer = $1 and source = $2 and id = $3)
