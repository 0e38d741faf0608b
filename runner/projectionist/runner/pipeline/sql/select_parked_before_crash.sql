-- What of this is due, aggregates ($2) and events without order ($3, $4), begins with what was parked up to $6; of a run, its
-- first $5 are looked at.
select aggregate, null::text as source, null::text as id from unnest($2::text[]) as aggregate
where exists (
    select from (
        select p.parked_at from {schema}.parked p
        where p.consumer = $1 and p.aggregate = aggregate.aggregate and p.ordered order by p.version limit $5
    ) as run
    where run.parked_at <= $6
)
union all
select null, p.source, p.id
from unnest($3::text[], $4::text[]) as entry (source, id)
join {schema}.parked p on p.consumer = $1 and p.source = entry.source and p.id = entry.id
where p.parked_at <= $6
