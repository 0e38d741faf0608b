-- Aggregates whose next step is due: a retry, the rest of a long drain, a parked head that can go on. Gaps are not: their
-- next step is to look for what is missing.
select aggregate from {schema}.positions
where consumer = $1 and head <> 'gap' and due <= clock_timestamp()
order by due limit $2
