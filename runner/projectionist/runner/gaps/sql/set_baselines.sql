-- Lets aggregates begin behind these versions, which are stepped over, and records that. The positions are locked.
with begun as (
    update {schema}.positions
    set version = first.version, head = 'draining', due = clock_timestamp()
    from unnest($2::text[], $3::bigint[]) as first (aggregate, version)
    where positions.consumer = $1 and positions.aggregate = first.aggregate
    returning positions.aggregate, positions.version
), marked as (
    insert into {schema}.dirty_marks (consumer, slot, mark)
    select c.number, c.slot, aggregate from begun cross join {schema}.consumers c
    where c.number = $1 and c.build is not null order by aggregate
    on conflict do nothing
)
insert into {schema}.decisions (consumer, kind, aggregate, version, upto, actor, reason)
select $1, 'baseline', aggregate, 1, version, 'projectionist', 'the stream holds nothing lower' from begun
