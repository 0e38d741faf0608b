-- Lets go of what was kept beyond the end of a transaction.
select pg_advisory_unlock($1::bigint)
