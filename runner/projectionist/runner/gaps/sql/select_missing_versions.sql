-- What these aggregates lack: their position, and the first parked event behind it.
select p.aggregate, p.version, coalesce(p.seq, 0) as seq, first.version as until, first.seq as behind,
    extract(epoch from clock_timestamp() - first.parked_at)::float8 as age_s
from {schema}.positions p
cross join lateral (
    select version, seq, parked_at from {schema}.parked e
    where e.consumer = p.consumer and e.aggregate = p.aggregate and e.ordered
    order by version limit 1
) first
where p.consumer = $1 and p.aggregate = any($2::text[]) and p.head = 'gap' and first.version > p.version + 1
order by p.aggregate
