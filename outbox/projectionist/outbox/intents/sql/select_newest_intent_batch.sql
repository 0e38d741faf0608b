-- The newest row of staged intents; null where there is none.
select max(seq) from {schema}.wishes where refused is null
