-- The event that an aggregate waits for: the one that failed, if one has, else the parked one with the lowest version.
-- Where versions may be left out, a lower one than the failed may have been parked after it.
select source, id, type, aggregate, version, attempts, hash,
    version = (select min(version) from {schema}.parked where consumer = $1 and aggregate = $2 and ordered) as lowest
from {schema}.parked where consumer = $1 and aggregate = $2 and ordered
order by cause = 'failed' desc, version limit 1
