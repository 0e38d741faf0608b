-- Which aggregates live batches have moved since the round before.
select distinct mark from {schema}.dirty_marks where consumer = $1 and slot = any($2::smallint[])
