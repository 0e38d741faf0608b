-- Opens the destinations of intents that were held.
update {schema}.circuits b set held = null, changed = clock_timestamp()
where b.held is not null
    and exists (
        select from {schema}.outbox o
        where o.seq = any ($1::bigint[]) and o.provider = b.provider and o.destination = b.destination
    )
