-- Takes the content out of parked events, which are stepped over in their turn; without order that is now.
with those as materialized (
    select e.source, e.id, p.cause, p.type, p.alike, {schema}.parked_state(p.ordered, p.cause, p.due) as state
    from unnest($2::text[], $3::text[]) as e (source, id)
    join {schema}.parked p on p.consumer = $1 and p.source = e.source and p.id = e.id
), gone as (
    delete from {schema}.parked p using those
    where p.consumer = $1 and p.source = those.source and p.id = those.id and not p.ordered
), emptied as (
    update {schema}.parked p
    set discarded = true, data = null, problem = null, error = null, stack = null, tracestate = null, baggage = null
    from those
    where p.consumer = $1 and p.source = those.source and p.id = those.id and p.ordered
    returning p.cause, p.type, p.alike, {schema}.parked_state(p.ordered, p.cause, p.due) as state
), counted as (
    insert into {schema}.parked_counts (consumer, cause, type, alike, state, events)
    select $1, cause, type, alike, state, sum(n) from (
        select cause, type, alike, state, -1 as n from those
        union all
        select cause, type, alike, state, 1 from emptied
    ) changed
    group by cause, type, alike, state having sum(n) <> 0
)
update {schema}.inbox i set state = 'discarded', data = null, tracestate = null
from those where i.consumer = $1 and i.source = those.source and i.id = those.id
