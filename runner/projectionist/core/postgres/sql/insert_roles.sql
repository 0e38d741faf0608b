-- Puts on record which roles have a duty.
insert into {schema}.roles (duty, role) select $1::text, role from unnest($2::text[]) role on conflict do nothing
