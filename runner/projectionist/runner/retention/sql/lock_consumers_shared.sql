-- Waits behind exclusive takers of these consumers, as a batch of each would.
select pg_advisory_xact_lock_shared(key) from unnest($1::bigint[]) as key
