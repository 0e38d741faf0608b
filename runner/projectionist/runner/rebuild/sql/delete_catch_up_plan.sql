-- Nor the plan of its last round.
delete from {schema}.build_steps where build = $1
