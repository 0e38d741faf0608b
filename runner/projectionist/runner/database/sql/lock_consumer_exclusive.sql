-- Waits until no batch of this consumer is open and keeps the next ones waiting.
select pg_advisory_xact_lock($1::bigint)
