-- Has rows of wishes that could not be opened tried again.
update {schema}.wishes set refused = null where refused is not null
