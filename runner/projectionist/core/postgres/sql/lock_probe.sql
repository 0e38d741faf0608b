-- The lock that a consumer's batches and its swap take, on a number that nobody else uses.
select pg_advisory_xact_lock($1::bigint)
