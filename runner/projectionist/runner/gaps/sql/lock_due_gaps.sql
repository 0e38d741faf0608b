-- Locks aggregates whose missing versions are to be looked for now, passing over what others hold: it comes due again by the
-- next look. A transaction that does this locks no other positions: skipping locked rows keeps to no order of locks.
select aggregate from {schema}.positions
where consumer = $1 and head = 'gap' and due <= clock_timestamp()
order by due limit $2
for update skip locked
