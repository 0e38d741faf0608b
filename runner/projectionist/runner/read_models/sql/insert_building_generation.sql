-- The generation that a build fills.
insert into {schema}.generations (consumer, generation, state, tables, shape, code, revision)
select consumer, generation, 'building', $2::text::jsonb, shape, code, revision from {schema}.builds where number = $1
