-- Has rows of staged intents that could not be unpacked tried again.
update {schema}.staged_intents set refused = null where refused is not null
