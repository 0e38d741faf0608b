-- Makes sure that each destination has a circuit to lock.
insert into {schema}.circuits (provider, destination)
select $1, destination from unnest($2::text[]) as d (destination) order by destination
on conflict do nothing
