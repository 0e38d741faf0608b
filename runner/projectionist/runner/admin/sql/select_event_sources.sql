-- Under which sources an id is known; number 0 stands for producers. Sources are few: the index is jumped along, not read.
select distinct found.source
from (select number from {schema}.consumers union all select 0) c
cross join lateral (
    with recursive sources as (
        select least(
            (select min(source) from {schema}.inbox where consumer = c.number),
            (select min(source) from {schema}.intents where c.number = 0 and consumer = 0)
        ) as source
        union all
        select least(
            (select min(source) from {schema}.inbox where consumer = c.number and source > s.source),
            (select min(source) from {schema}.intents where c.number = 0 and consumer = 0 and source > s.source)
        )
        from sources s where s.source is not null
    )
    select s.source from sources s
    where exists (select from {schema}.inbox i where i.consumer = c.number and i.source = s.source and i.id = $1)
        or exists (select from {schema}.intents t where t.consumer = c.number and t.source = s.source and t.id = $1)
    union
    select a.content ->> 'source' from {schema}.archive a
    where a.kind in ('inbox', 'intents') and a.content ->> 'id' = $1 and a.consumer = c.number
    union
    select q.source from {schema}.quarantine q where q.consumer = c.number and q.id = $1 and q.source is not null
    union
    select d.source from {schema}.decisions d where d.consumer = c.number and d.id = $1 and d.source is not null
    union
    select n.source from {schema}.incidents n where n.consumer = c.number and n.id = $1 and n.source is not null
    union
    select u.source from {schema}.duplicates u where u.consumer = c.number and u.id = $1
) found
order by found.source
