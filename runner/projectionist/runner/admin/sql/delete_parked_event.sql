-- Takes one event out of the parked ones.
delete from {schema}.parked where consumer = $1 and source = $2 and id = $3
