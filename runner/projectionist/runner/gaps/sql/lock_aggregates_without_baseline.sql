-- Locks those of these aggregates that still wait for a first version, passing over what others hold: they come due again. A
-- transaction that does this locks no other positions: skipping locked rows keeps to no order of locks.
select aggregate from {schema}.positions
where consumer = $1 and aggregate = any($2::text[]) and version = 0 and head = 'gap'
for update skip locked
