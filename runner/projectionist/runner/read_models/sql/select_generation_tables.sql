-- What is remembered of the tables of a generation.
select tables::text from {schema}.generations where consumer = $1 and generation = $2
