-- The code a generation was made by.
select code from {schema}.generations where consumer = $1 and generation = $2
