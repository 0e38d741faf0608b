-- The end of that.
select pg_advisory_unlock($1)
