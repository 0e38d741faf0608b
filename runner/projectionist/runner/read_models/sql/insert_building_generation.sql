-- The generation that a build fills.
insert into {schema}.generations (view, generation, state, tables, shape, code, revision)
select view, generation, 'building', $2::text::jsonb, shape, code, revision from {schema}.build_views where build = $1
