-- Aggregates whose missing versions are to be looked for now.
select aggregate from {schema}.positions
where consumer = $1 and head = 'gap' and due <= clock_timestamp()
order by due limit $2
