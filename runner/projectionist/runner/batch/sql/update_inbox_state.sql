-- Corrects the provisional state of claimed rows and completes drained ones; all of one source and one outcome.
update {schema}.inbox
set state = $4, verdict = coalesce($5, verdict), batch = $6, processed = clock_timestamp()
where consumer = $1 and source = $2 and id = any($3::text[])
