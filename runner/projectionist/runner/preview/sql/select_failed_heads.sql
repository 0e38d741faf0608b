-- Events that failed, which their aggregates wait for, in the order of the stream; and how many there are in all.
select aggregate, version, type, source, id, incarnation, seq, error_class, error, count(*) over () as total
from {schema}.parked where consumer = $1 and cause = 'failed' and not discarded order by incarnation, seq limit $2
