-- What the live generation looks like.
insert into {schema}.generations (consumer, generation, state, tables, shape, code, revision)
select number, generation, 'live', $2::text::jsonb, $3, $4, revision from {schema}.consumers where number = $1
on conflict (consumer, generation) do update set tables = excluded.tables, shape = excluded.shape
