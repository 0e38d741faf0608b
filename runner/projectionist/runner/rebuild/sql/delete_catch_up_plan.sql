-- The plan of a round is needed no more.
delete from {schema}.build_steps where build = $1
