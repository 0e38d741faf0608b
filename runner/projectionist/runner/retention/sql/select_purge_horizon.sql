-- Since when nothing is certain yet: what was settled before is committed, and its intents can be seen. The row of a batch
-- that is open bears a time from within its transaction.
select least(clock_timestamp(), $1::timestamptz, (
    select min(xact_start) from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend'
))
