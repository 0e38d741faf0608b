-- The same about one event in order of which the inbox may keep no row any more.
insert into {schema}.decisions (consumer, kind, aggregate, version, source, id, hash, actor, reason)
select $1, 'erase', $2, $3, $4, $5, $6, $7, $8
where not exists (
    select from {schema}.decisions d
    where d.consumer = $1 and d.kind = 'erase' and d.aggregate = $2 and d.source = $4 and d.id = $5
)
