-- Holds all intents for a destination until an operator acts.
insert into {schema}.circuits (provider, destination, held) values ($1, $2, $3)
on conflict (provider, destination) do update set held = excluded.held, changed = clock_timestamp()
