-- The right to make a consumer's indexes, if nobody has it: who waited for it inside a statement would be waited for by the
-- index itself.
select pg_try_advisory_lock($1)
