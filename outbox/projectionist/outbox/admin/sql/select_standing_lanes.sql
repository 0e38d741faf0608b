-- Lanes in which others stand behind an intent that is not to be sent now, the longest first. $1: of this provider; $2: so many.
select l.provider, i.ordering, l.others::bigint as behind, i.key, i.created, o.attempt, coalesce(o.error, i.error) as error,
    case when o.state = 'ready' and b.held is not null then 'held' else o.state end as state,
    nullif(greatest(o.due, case when b.state <> 'closed' then b.until end), '-infinity') as due
from (
    select provider, lane, min(place) as first, count(*) - 1 as others
    from {schema}.outbox
    where open and ($1::text is null or provider = $1)
    group by provider, lane
    having count(*) > 1
) l
join {schema}.outbox o on o.open and o.provider = l.provider and o.lane = l.lane and o.place = l.first
join {schema}.intents i on i.seq = o.seq
left join {schema}.circuits b on b.provider = o.provider and b.destination = o.destination
where o.state in ('reconcile', 'dead', 'held') or b.held is not null
    or greatest(o.due, case when b.state <> 'closed' then b.until end) > clock_timestamp()
order by behind desc, l.provider, l.lane
limit $2
