-- Stages the intents of a batch, in their order; a relay unpacks them.
insert into {schema}.staged_intents (consumer, incarnation, intents, encoded)
select $1, $2, n, encoded from unnest($3::integer[], $4::bytea[]) as part (n, encoded)
