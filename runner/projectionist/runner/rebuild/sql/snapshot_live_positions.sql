-- Where the live generation stands: what the shadow may fold. $3: where the shadow is thought to stand, null for there too.
insert into {schema}.build_positions (build, aggregate, cap, version)
select $1, aggregate, version, coalesce($3, version) from {schema}.positions where consumer = $2
