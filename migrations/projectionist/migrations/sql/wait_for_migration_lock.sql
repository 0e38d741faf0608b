-- Patience for another applier, and no limit on how long a migration may then run; both end with the transaction.
select pg_catalog.set_config('lock_timeout', $1, true), pg_catalog.set_config('statement_timeout', '0', true)
