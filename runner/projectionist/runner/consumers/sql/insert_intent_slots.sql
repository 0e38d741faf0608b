-- Registers slots of a view: their names are part of intent keys from now on.
insert into {schema}.names (view, kind, name, owner)
select $1, 'slot', name, owner from unnest($2::text[], $3::text[]) as fresh (name, owner)
on conflict do nothing
