-- The newest row of staged intents; null where there is none.
select max(seq) from {schema}.staged_intents where refused is null
