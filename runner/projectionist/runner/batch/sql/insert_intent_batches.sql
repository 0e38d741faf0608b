-- Stages the intents of a batch, in its order; who looks at intents opens it.
insert into {schema}.wishes (consumer, incarnation, intents, wished)
select $1, $2, n, wished from unnest($3::integer[], $4::bytea[]) as part (n, wished)
