-- Lets aggregates begin behind these versions, which are stepped over, and records that. The positions are locked.
with before as materialized (
    select aggregate, head, parked from {schema}.positions where consumer = $1 and aggregate = any($2::text[])
), begun as (
    update {schema}.positions
    set version = first.version, head = 'draining', due = clock_timestamp()
    from unnest($2::text[], $3::bigint[]) as first (aggregate, version)
    where positions.consumer = $1 and positions.aggregate = first.aggregate
    returning positions.aggregate, positions.version, positions.parked
), counted as (
    insert into {schema}.held_counts (consumer, head, aggregates, events)
    select $1, head, sum(n), sum(n * parked) from (
        select b.head, -1 as n, b.parked from before b join begun using (aggregate) where b.head <> 'clear'
        union all
        select 'draining', 1, parked from begun
    ) changed
    group by head having sum(n) <> 0
), marked as (
    insert into {schema}.dirty_marks (consumer, slot, mark)
    select c.number, c.slot, aggregate from begun cross join {schema}.consumers c
    where c.number = $1 and c.build is not null order by aggregate
    on conflict do nothing
)
insert into {schema}.decisions (consumer, kind, aggregate, version, upto, actor, reason)
select $1, 'baseline', aggregate, 1, version, 'projectionist', 'the stream holds nothing lower' from begun
