-- Which identity a version belongs to, where two claimed it; the first word stands.
insert into {schema}.decisions (consumer, kind, aggregate, version, source, id, actor, reason)
select $1, 'winner', aggregate, version, source, id, 'projectionist', 'first to be settled'
from unnest($2::text[], $3::bigint[], $4::text[], $5::text[]) as won (aggregate, version, source, id)
where not exists (
    select from {schema}.decisions d
    where d.consumer = $1 and d.kind = 'winner' and d.aggregate = won.aggregate and d.version = won.version
)
