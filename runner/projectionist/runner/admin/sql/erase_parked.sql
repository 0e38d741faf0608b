-- Takes the content out of parked events, which are stepped over in their turn; without order that is now.
with those as (
    select e.source, e.id from unnest($2::text[], $3::text[]) as e (source, id)
), gone as (
    delete from {schema}.parked p using those
    where p.consumer = $1 and p.source = those.source and p.id = those.id and not p.ordered
), emptied as (
    update {schema}.parked p
    set discarded = true, data = null, problem = null, error = null, stack = null, tracestate = null, baggage = null
    from those
    where p.consumer = $1 and p.source = those.source and p.id = those.id and p.ordered
)
update {schema}.inbox i set state = 'discarded', data = null, tracestate = null
from those where i.consumer = $1 and i.source = those.source and i.id = those.id
