-- A migration that waits for a table lock makes every later reader of that table wait behind it: give up early.
select pg_catalog.set_config('lock_timeout', '8s', true)
