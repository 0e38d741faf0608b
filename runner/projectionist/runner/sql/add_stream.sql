-- A stream seen for the first time.
insert into {schema}.streams (name, incarnation, created) values ($1, 1, $2) on conflict do nothing
