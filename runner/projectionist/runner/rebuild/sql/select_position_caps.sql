-- The caps of a build.
select aggregate, cap, version from {schema}.build_positions where build = $1
