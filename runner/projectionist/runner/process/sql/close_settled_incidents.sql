-- Closes open incidents of a consumer whose matter is settled, and says by what: a gap of which nothing is missing any more,
-- an event that was put aside or stumbled over and is decided about since, a durable or a database in other hands: whoever
-- asks serves the consumer over a durable of this database.
with asked as (
    select * from {schema}.incidents
    where consumer = $1 and closed is null
        and kind in ('purged', 'filtered', 'lost', 'implausible', 'identity_reuse', 'version_reuse', 'fault')
    order by number limit 1000
), gaps as (
    select a.number, coalesce(
            (select d.kind || ' by ' || d.actor || ': ' || d.reason from {schema}.decisions d
                where d.consumer = $1 and d.aggregate = a.aggregate and (
                    d.kind = 'accept_gap' and a.version - 1 between d.version and coalesce(d.upto, d.version)
                    or d.kind = 'discard' and d.version = a.version
                ) order by d.number desc limit 1),
            (select format('event %s of %s came, at sequence %s, received %s', i.id, i.source, i.seq,
                    to_char(i.received at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
                from {schema}.inbox i
                where i.consumer = $1 and i.aggregate = a.aggregate and i.version between a.version - 1000 and a.version - 1
                order by i.received desc, i.seq desc limit 1),
            'nothing is missing any more'
        ) as what
    from asked a
    join {schema}.positions p on p.consumer = $1 and p.aggregate = a.aggregate
    where a.kind in ('purged', 'filtered', 'lost', 'implausible') and (
        p.version >= a.version - 1
        or (a.version - 1 - p.version <= p.parked and not exists (
            select from generate_series(p.version + 1, a.version - 1) v
            where not exists (
                select from {schema}.parked e where e.consumer = $1 and e.aggregate = a.aggregate and e.version = v and e.ordered
            )
        ))
        or not exists (
            select from {schema}.parked e
            where e.consumer = $1 and e.aggregate = a.aggregate and e.version = a.version and e.ordered
        )
    )
), aside as (
    select a.number, 'what it is about has left quarantine: ' || q.state as what
    from asked a
    join {schema}.quarantine q on q.consumer = $1 and q.incarnation = a.incarnation and q.seq = a.seq
    where a.kind in ('identity_reuse', 'version_reuse') and q.state <> 'quarantined'
), faults as (
    select a.number, 'the event is ' || i.state || ' by now' as what
    from asked a
    join {schema}.inbox i on i.consumer = $1 and i.source = a.source and i.id = a.id
    where a.kind = 'fault' and i.state not in ('parked', 'quarantined')
), hands as (
    select a.number, format('durable %s is this database''s', c.durable) as what
    from {schema}.incidents a
    join {schema}.consumers c on c.number = a.consumer
    where a.consumer = $1 and a.closed is null and a.kind in ('database_copied', 'durable_taken')
)
update {schema}.incidents i set closed = clock_timestamp(), settled = over.what
from (select * from gaps union all select * from aside union all select * from faults union all select * from hands) over
where i.number = over.number and i.closed is null
returning i.number, i.kind, i.aggregate, i.settled
