-- Statement 6 of the twin: locks and reads positions.
select aggregate, version from {schema}.positions
where consumer = $1 and aggregate = any($2::text[])
order by aggregate
for update
