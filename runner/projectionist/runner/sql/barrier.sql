-- Waits until no exclusive taker (swap, pause, reset, migrate, verb under barrier) holds or awaits this consumer.
select pg_advisory_xact_lock_shared($1::bigint)
