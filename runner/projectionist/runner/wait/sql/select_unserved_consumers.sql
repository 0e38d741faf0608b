-- The consumers among these ($1) for which no process applies events now, and why. $2: a process silent for so long does not count.
select c.number, coalesce(
    case when c.paused then coalesce((
        select format('it is paused by %s since %s: %s', a.who, to_char(a.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), a.reason)
        from {schema}.audit a where a.object = c.name || ': ' || c.name and a.action = 'pause' order by a.number desc limit 1
    ), 'it is paused') end,
    (select 'its breaker is open: ' || b.reason from {schema}.consumer_breakers b where b.consumer = c.number and b.state = 'open'),
    (select 'no process runs it: ' || s.reason from {schema}.setbacks s
        where s.consumer = c.name and s.what = '' and s.until > clock_timestamp() order by s.since desc limit 1),
    'no process runs it'
) as reason,
    c.paused or exists (
        select from {schema}.consumer_breakers b where b.consumer = c.number and b.state = 'open'
    ) as decided
from {schema}.consumers c
where c.number = any($1::integer[]) and (
    c.paused
    or exists (select from {schema}.consumer_breakers b where b.consumer = c.number and b.state = 'open')
    or not exists (
        select from {schema}.runners r where r.consumer = c.number and r.stopped is null
            and r.beat > clock_timestamp() - $2::float8 * interval '1 second'
    )
)
