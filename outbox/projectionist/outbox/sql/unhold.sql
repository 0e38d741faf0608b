-- Opens the destinations of intents that were held.
update {schema}.breakers b set held = null, changed = clock_timestamp()
where b.held is not null
    and exists (
        select from {schema}.intents i
        where i.key = any ($1::text[]) and i.provider = b.provider and i.destination = b.destination
    )
