-- Which aggregates live batches have moved since the round before.
select distinct mark from {schema}.dirty where consumer = $1 and slot = any($2::smallint[])
