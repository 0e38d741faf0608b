-- Enters names of read models as this consumer's, unless they are another's; whose they are.
insert into {schema}.own_names (name, consumer) select name, $1 from unnest($2::text[]) as wanted (name)
on conflict (name) do update set name = excluded.name returning name, consumer
