-- Whether any migration was ever applied to this schema.
select exists (select from pg_catalog.pg_tables where schemaname = $1 and tablename = 'migrations')
