-- The number that the next generation of a view has.
select 1 + coalesce(max(generation), 0) from {schema}.generations where view = $1
