-- Stages the intents of a batch, in their order; a relay unpacks them.
insert into {schema}.wishes (consumer, incarnation, intents, wished)
select $1, $2, n, wished from unnest($3::integer[], $4::bytea[]) as part (n, wished)
