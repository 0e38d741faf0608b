-- True while a row of staged intents up to this one is left.
select exists (select from {schema}.staged_intents where seq <= $1 and refused is null)
