-- Whether the schema is there. `create schema if not exists` cannot stand in: it demands the right to create one.
select exists (select from pg_catalog.pg_namespace where nspname = $1)
