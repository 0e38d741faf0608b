-- Adds the counters of processes that are long gone into one row an hour, type and outcome: sums stay what they are. Of their
-- minutes nobody asks any more.
with ended as materialized (
    select number from {schema}.runners
    where consumer = any($1::integer[]) and coalesce(stopped, beat) < clock_timestamp() - $2::float8 * interval '1 second'
),
forgotten as (
    delete from {schema}.minute_counts where consumer = any($1) and runner = any(array(select number from ended))
),
gone as (
    delete from {schema}.counters
    where consumer = any($1) and runner = any(array(select number from ended))
    returning consumer, hour, type, outcome, n
)
insert into {schema}.counters (consumer, runner, hour, type, outcome, n)
select consumer, 0, hour, type, outcome, sum(n) from gone group by 1, 3, 4, 5 order by 1, 3, 4, 5
on conflict (consumer, runner, hour, type, outcome) do update set n = counters.n + excluded.n
