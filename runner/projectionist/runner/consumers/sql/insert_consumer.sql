-- Registers a consumer and its view for the first time.
with registered as (
    insert into {schema}.consumers (name, stream, sequence, baseline, subjects, durable)
    values ($1, $6, $7, $8, $9, $10)
    returning number
)
insert into {schema}.views (consumer, name, key_name, kind, revision, shape, code)
select number, $1, $1, $2, $3, $4, $5 from registered
returning consumer as number, number as view
