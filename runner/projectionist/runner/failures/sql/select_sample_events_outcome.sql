-- The same for events without order.
select coalesce(bool_or(e.id is null), false) as mended, coalesce(bool_or(e.due is not null), false) as open
from unnest($2::text[], $3::text[]) as sample (source, id)
left join {schema}.parked e on e.consumer = $1 and e.source = sample.source and e.id = sample.id
