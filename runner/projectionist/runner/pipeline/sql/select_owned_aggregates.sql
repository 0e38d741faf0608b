-- Which of these aggregates, whose positions are locked, a runner has claimed and no other has taken over.
select aggregate from {schema}.positions
where consumer = $1 and aggregate = any($2::text[]) and owner = $3
