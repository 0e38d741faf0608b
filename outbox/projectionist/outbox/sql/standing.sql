-- Locks intents in order and says how they stand.
select key, state, error from {schema}.intents where key = any ($1::text[]) order by seq for update
