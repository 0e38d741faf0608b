-- Adds up what was counted in many rows, where they are many: readers add up fewer. Nobody else may do this, or count anew, at the
-- same time.
with gone_held as (
    delete from {schema}.held_counts
    where consumer = $1 and (select count(*) > $2 from {schema}.held_counts where consumer = $1)
    returning head, aggregates, events
), held as (
    insert into {schema}.held_counts (consumer, head, aggregates, events)
    select $1, head, sum(aggregates), sum(events) from gone_held
    group by head having sum(aggregates) <> 0 or sum(events) <> 0
), gone_parked as (
    delete from {schema}.parked_counts
    where consumer = $1 and (
        select count(*) > $2 + 2 * count(distinct (cause, type, alike, state)) from {schema}.parked_counts where consumer = $1
    )
    returning cause, type, alike, state, events
)
insert into {schema}.parked_counts (consumer, cause, type, alike, state, events)
select $1, cause, type, alike, state, sum(events) from gone_parked
group by cause, type, alike, state having sum(events) <> 0
