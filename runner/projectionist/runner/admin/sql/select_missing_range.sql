-- The versions that an aggregate at the head of a gap waits for.
select p.version + 1 as first, min(e.version) - 1 as last
from {schema}.positions p
join {schema}.parked e on e.consumer = p.consumer and e.aggregate = p.aggregate and e.ordered
where p.consumer = $1 and p.aggregate = $2
group by p.version
