-- Where the shadow stands with these aggregates.
insert into {schema}.build_positions (build, aggregate, cap, version)
select $1, aggregate, 0, version from unnest($2::text[], $3::bigint[]) as moved (aggregate, version)
on conflict (build, aggregate) do update set version = excluded.version
