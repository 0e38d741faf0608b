-- Lanes in which others stand behind an intent that no relay takes up now, by what lease_intents says, the longest first. $1: of this
-- provider; $2: so many.
with standing as materialized (
    select l.provider, l.lane, l.behind, o.seq, o.attempt, o.error, head.state, head.due
    from (
        select provider, lane, min(place) as first, count(*) - 1 as behind
        from {schema}.outbox
        where open and ($1::text is null or provider = $1)
        group by provider, lane
        having count(*) > 1
    ) l
    join {schema}.outbox o on o.open and o.provider = l.provider and o.lane = l.lane and o.place = l.first
    left join {schema}.circuits b on b.provider = o.provider and b.destination = o.destination
    cross join lateral (
        select case when o.state in ('ready', 'leased', 'unknown') and b.held is not null then 'held' else o.state end as state,
            nullif(greatest(o.due, case when o.state <> 'started' and b.state <> 'closed'
                and b.until <= clock_timestamp() + make_interval(secs => b.pause_s) then b.until end), '-infinity') as due
    ) head
    where (o.state not in ('leased', 'started', 'unknown') or coalesce(o.lease_until <= clock_timestamp(), true))
        and (head.state in ('reconcile', 'dead', 'held') or head.due > clock_timestamp())
    order by l.behind desc, l.provider, l.lane
    limit $2
)
select s.provider, s.lane as ordering, s.behind, i.key, i.created, s.attempt, coalesce(s.error, i.error) as error, s.state, s.due
from standing s
join {schema}.intents i on i.seq = s.seq
order by s.behind desc, s.provider, s.lane
