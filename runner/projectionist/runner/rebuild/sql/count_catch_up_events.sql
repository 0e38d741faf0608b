-- How many events a round has to fold, and how far into the stream they reach.
select count(seq) as many, coalesce(max(seq), 0) as top from {schema}.build_steps where build = $1
