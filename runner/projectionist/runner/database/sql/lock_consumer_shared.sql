-- Waits until no exclusive taker (swap, pause, reset, migrate, action under barrier) holds or awaits this consumer. What
-- follows is acked once it is committed: where the database prefers speed, this transaction is on disk all the same.
select pg_advisory_xact_lock_shared($1::bigint),
    case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end
