-- Forgets buckets that were asked for nothing for so long and are full again by a provider's rate ($4) and burst ($5): no row is full.
with old as (
    select provider, destination from {schema}.buckets
    where provider = $1 and refilled < clock_timestamp() - make_interval(secs => $2)
        and tokens + $4::float8 * extract(epoch from clock_timestamp() - refilled)::float8 >= $5::float8
    order by provider, destination
    limit $3 for update skip locked
)
delete from {schema}.buckets b using old o where b.provider = o.provider and b.destination = o.destination
