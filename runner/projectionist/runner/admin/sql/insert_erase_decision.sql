-- A decision that the content of an aggregate's versions up to $3 is gone, which rebuild and verify repeat.
insert into {schema}.decisions (consumer, kind, aggregate, version, upto, actor, reason)
select $1, 'erase', $2, 1, $3, $4, $5
where not exists (
    select from {schema}.decisions d
    where d.consumer = $1 and d.aggregate = $2 and d.kind = 'erase' and d.version = 1 and d.upto >= $3
)
