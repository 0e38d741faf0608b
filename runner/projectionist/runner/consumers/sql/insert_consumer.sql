-- Registers a consumer for the first time; its views come after it.
insert into {schema}.consumers (name, stream, sequence, baseline, subjects, durable)
values ($1, $2, $3, $4, $5, $6)
returning number
