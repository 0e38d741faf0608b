-- What the live generation of a view looks like.
insert into {schema}.generations (view, generation, state, tables, shape, code, revision)
select number, generation, 'live', $2::text::jsonb, $3, $4, revision from {schema}.views where number = $1
on conflict (view, generation) do update set tables = excluded.tables, shape = excluded.shape
