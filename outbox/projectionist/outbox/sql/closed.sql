-- Settles intents by a person's word.
update {schema}.intents
set state = $2, open = false, settled = clock_timestamp(), token = null, lease_until = null,
    provider_id = coalesce($3, provider_id)
where key = any ($1::text[])
