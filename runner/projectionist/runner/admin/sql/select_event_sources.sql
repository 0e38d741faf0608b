-- Under which sources an id is known; number 0 stands for producers. Sources are few: the index is jumped along, not read. That an
-- event is there is asked by a subselect with a limit: an `exists` may be planned as all ids of a consumer, read once and hashed.
with recursive sources as (
    select c.number, least(
        (select min(source) from {schema}.inbox where consumer = c.number),
        (select min(source) from {schema}.intents where c.number = 0 and consumer = 0)
    ) as source
    from (select number from {schema}.consumers union all select 0) c
    union all
    select s.number, least(
        (select min(source) from {schema}.inbox where consumer = s.number and source > s.source),
        (select min(source) from {schema}.intents where s.number = 0 and consumer = 0 and source > s.source)
    )
    from sources s where s.source is not null
),
found as (
    select s.number as consumer, s.source from sources s
    where s.source is not null and (
        (select true from {schema}.inbox i where i.consumer = s.number and i.source = s.source and i.id = $1 limit 1)
        or (select true from {schema}.intents t where t.consumer = s.number and t.source = s.source and t.id = $1 limit 1)
    )
    union all
    select consumer, content ->> 'source' from {schema}.archive where kind in ('inbox', 'intents') and content ->> 'id' = $1
    union all
    select consumer, source from {schema}.quarantine where id = $1
    union all
    select consumer, source from {schema}.decisions where id = $1
    union all
    select consumer, source from {schema}.incidents where id = $1
    union all
    select consumer, source from {schema}.duplicates where id = $1
)
select distinct source from found
where source is not null and (consumer = 0 or consumer in (select number from {schema}.consumers))
order by source
