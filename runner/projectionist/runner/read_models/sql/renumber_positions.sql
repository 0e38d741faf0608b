-- Copied positions of another build are this one's.
update {schema}.build_positions set build = $1
