-- Whether all of these tables are there.
select coalesce(bool_and(to_regclass(name) is not null), true) from unnest($1::text[]) as wanted (name)
