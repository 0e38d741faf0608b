-- The generation of a view that a build fills.
insert into {schema}.generations (view, generation, state, tables, shape, code, revision)
select view, generation, 'building', $3::text::jsonb, shape, code, revision from {schema}.build_views where build = $1 and view = $2
