-- A parked event, under its own lock.
select source, id, type, aggregate, version, ordered, attempts, hash
from {schema}.parked where consumer = $1 and source = $2 and id = $3
for update
