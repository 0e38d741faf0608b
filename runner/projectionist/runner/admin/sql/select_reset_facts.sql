-- What a reset takes away, and what it leaves.
select (select count(*) from {schema}.positions where consumer = $1) as positions,
    (select count(*) from {schema}.inbox where consumer = $1) as inbox,
    (select count(*) from {schema}.parked where consumer = $1) as parked,
    (select count(*) from {schema}.decisions where consumer = $1) as decisions
