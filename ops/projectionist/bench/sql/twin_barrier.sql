-- Statement 1 of the twin: waits behind whoever holds the consumer alone.
select pg_advisory_xact_lock_shared($1::bigint)
