-- The newest row of wishes; null where there is none.
select max(seq) from {schema}.wishes where refused is null
