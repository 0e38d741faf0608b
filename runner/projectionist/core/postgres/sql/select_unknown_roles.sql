-- Of these names, those that no role of the server has.
select name from unnest($1::text[]) name where not exists (select from pg_roles where rolname = name) order by 1
