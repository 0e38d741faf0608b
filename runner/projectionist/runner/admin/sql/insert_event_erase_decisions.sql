-- The same about single events that were applied, or would have been; without order ($4) no version is stepped over.
insert into {schema}.decisions (consumer, kind, aggregate, version, source, id, hash, actor, reason)
select $1, 'erase', i.aggregate, case when $4 then i.version end, i.source, i.id, i.hash, $5, $6
from unnest($2::text[], $3::text[]) as e (source, id)
join {schema}.inbox i on i.consumer = $1 and i.source = e.source and i.id = e.id
where i.state in ('applied', 'ignored', 'parked') and not exists (
    select from {schema}.decisions d
    where d.consumer = $1 and d.kind = 'erase' and d.aggregate is not distinct from i.aggregate
        and d.source = i.source and d.id = i.id
)
order by i.source, i.id
