-- How often each outcome was reached, over all consumers.
select outcome, sum(n)::bigint as n from {schema}.counters group by outcome
