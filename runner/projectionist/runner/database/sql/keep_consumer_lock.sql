-- Keeps the barrier beyond the end of the transaction that holds it, for the next one of the same session.
select pg_advisory_lock($1::bigint)
