-- The code a generation was made by, and what is remembered of its tables.
select code, tables::text from {schema}.generations where view = $1 and generation = $2
