-- Adds to this process's own counters, and to this minute; readers sum over processes.
with seen as materialized (
    select type, outcome, n from unnest($3::text[], $4::text[], $5::bigint[]) as s (type, outcome, n)
), minute as (
    insert into {schema}.minute_counts (consumer, runner, place, minute, applied, failed)
    select $1, $2, extract(minute from now.minute at time zone 'UTC'), now.minute,
        coalesce(sum(n) filter (where outcome = 'applied'), 0), coalesce(sum(n) filter (where outcome = 'failed'), 0)
    from seen cross join (select date_trunc('minute', clock_timestamp(), 'UTC') as minute) now
    where outcome in ('applied', 'failed')
    group by now.minute
    on conflict (consumer, place, runner) do update set minute = excluded.minute,
        applied = excluded.applied + case when minute_counts.minute = excluded.minute then minute_counts.applied else 0 end,
        failed = excluded.failed + case when minute_counts.minute = excluded.minute then minute_counts.failed else 0 end
)
insert into {schema}.counters (consumer, runner, hour, type, outcome, n)
select $1, $2, date_trunc('hour', clock_timestamp(), 'UTC'), type, outcome, n from seen
on conflict (consumer, runner, hour, type, outcome) do update set n = counters.n + excluded.n
