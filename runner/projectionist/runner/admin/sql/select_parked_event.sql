-- Where a parked event waits; not locked, since its aggregate's position has to be locked first.
select aggregate, ordered from {schema}.parked where consumer = $1 and source = $2 and id = $3
