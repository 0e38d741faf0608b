-- One purge at a time takes a step: a row is never archived twice because two met.
select pg_advisory_xact_lock($1::bigint)
