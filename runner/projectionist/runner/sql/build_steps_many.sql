-- How many events a round has to fold.
select count(seq) from {schema}.build_steps where build = $1
