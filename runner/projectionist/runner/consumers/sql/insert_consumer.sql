-- Registers a consumer for the first time.
insert into {schema}.consumers (name, key_name, kind, revision, shape, code, stream, sequence, baseline, subjects, durable)
values ($1, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
returning number
