-- The first time: wherever the schema is, there it is at home.
insert into {schema}.owner (system, timeline, database, name, home) values ($1, $2, $3, $4, $5) on conflict do nothing
