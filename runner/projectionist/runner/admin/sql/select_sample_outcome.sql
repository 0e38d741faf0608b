-- What became of parked events that had been tried so many times: gone from where they waited, failed again, or untried.
select coalesce(bool_or(e.id is null), false) as mended, coalesce(bool_or(e.attempts <= sample.attempts), false) as open
from unnest($2::text[], $3::text[], $4::integer[]) as sample (source, id, attempts)
left join {schema}.parked e on e.consumer = $1 and e.source = sample.source and e.id = sample.id
