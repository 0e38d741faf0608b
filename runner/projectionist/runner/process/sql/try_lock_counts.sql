-- The right to replace what is counted of a consumer, until the transaction ends; false: somebody has it.
select pg_try_advisory_xact_lock($1)
