-- Has rows of staged intents that could not be unpacked tried again.
update {schema}.wishes set refused = null where refused is not null
