-- Counts what waits anew, in place of what was counted up to now: both as one moment shows them, so that what others count
-- meanwhile is added to it. Nobody else may do this or add counts up at the same time.
with gone_held as (
    delete from {schema}.held_counts where consumer = $1
), held as (
    insert into {schema}.held_counts (consumer, head, aggregates, events)
    select $1, head, count(*), sum(parked) from {schema}.positions where consumer = $1 and head <> 'clear' group by head
), gone_parked as (
    delete from {schema}.parked_counts where consumer = $1
)
insert into {schema}.parked_counts (consumer, cause, type, alike, state, events)
select $1, cause, type, alike, {schema}.parked_state(ordered, cause, due), count(*)
from {schema}.parked where consumer = $1
group by cause, type, alike, {schema}.parked_state(ordered, cause, due)
