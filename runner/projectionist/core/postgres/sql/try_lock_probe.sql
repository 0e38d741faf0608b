-- The same lock for a second session: shared, as batches take it, and without waiting.
select pg_try_advisory_xact_lock_shared($1::bigint)
