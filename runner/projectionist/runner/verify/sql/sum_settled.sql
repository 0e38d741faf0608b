-- How much a consumer has settled in all its time: every batch that settles anything adds to it.
select coalesce(sum(n), 0)::bigint from {schema}.counters where consumer = $1
