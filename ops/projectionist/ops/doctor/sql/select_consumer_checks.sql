-- Things of each consumer that wait for a person, and which processes run it. $1: silent for so long is dead or frozen.
select c.number, c.name, c.stream, c.durable, c.incarnation, c.paused,
    exists (select from {schema}.builds b where b.consumer = c.number and b.ended is null) as building,
    (select count(*) from {schema}.positions where consumer = c.number and head in ('waiting', 'failed')) as stopped,
    (select count(*) from {schema}.parked where consumer = c.number and not ordered and cause = 'failed' and due is null) as alone,
    (select count(*) from {schema}.quarantine where consumer = c.number and state = 'quarantined') as quarantined,
    (select count(*) from {schema}.incidents where consumer = c.number and closed is null) as incidents,
    (select reason from {schema}.consumer_breakers where consumer = c.number and state <> 'closed') as breaker,
    (select count(*) from {schema}.intents i join {schema}.outbox o on o.seq = i.seq
        where i.consumer = c.number and o.state in ('dead', 'reconcile', 'held')) as undelivered,
    array(select distinct o.provider from {schema}.intents i join {schema}.outbox o on o.seq = i.seq
        where i.consumer = c.number order by o.provider) as providers,
    (select count(*) from {schema}.runners where consumer = c.number and stopped is null
        and beat > clock_timestamp() - $1::float8 * interval '1 second') as running,
    array(select distinct host || ':' || pid from {schema}.runners where consumer = c.number and stopped is null
        and beat < clock_timestamp() - $1 * interval '1 second' and beat > clock_timestamp() - interval '1 day' order by 1) as silent,
    coalesce((select jsonb_agg(jsonb_build_array(host || ':' || pid, headers) order by number)
        from {schema}.runners where consumer = c.number and stopped is null
        and headers is not null and beat > clock_timestamp() - $1 * interval '1 second'), '[]') as headers,
    (select max(p99_ms) from {schema}.runners where consumer = c.number and stopped is null
        and beat > clock_timestamp() - interval '1 hour') as p99_ms,
    (select extract(epoch from clock_timestamp() - max(written))::float8 from {schema}.floors where consumer = c.number) as floor_s
from {schema}.consumers c
order by c.name
