-- Adds the hours of a month that is over for so long into one row a type and outcome: sums stay what they are.
with gone as (
    delete from {schema}.counters
    where consumer = any($1::integer[]) and runner = 0 and hour <> date_trunc('month', hour, 'UTC')
        and hour < date_trunc('month', clock_timestamp() - $2::float8 * interval '1 second', 'UTC')
    returning consumer, hour, type, outcome, n
)
insert into {schema}.counters (consumer, runner, hour, type, outcome, n)
select consumer, 0, date_trunc('month', hour, 'UTC'), type, outcome, sum(n)
from gone group by consumer, date_trunc('month', hour, 'UTC'), type, outcome
on conflict (consumer, runner, hour, type, outcome) do update set n = counters.n + excluded.n
