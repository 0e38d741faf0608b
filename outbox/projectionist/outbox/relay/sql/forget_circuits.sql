-- Forgets destinations that have been well for so long: no row is a closed circuit.
with old as (
    select provider, destination from {schema}.circuits
    where provider = any ($1::text[]) and state = 'closed' and held is null
        and changed < clock_timestamp() - make_interval(secs => $2)
    order by provider, destination
    limit $3 for update skip locked
)
delete from {schema}.circuits c using old o where c.provider = o.provider and c.destination = o.destination
