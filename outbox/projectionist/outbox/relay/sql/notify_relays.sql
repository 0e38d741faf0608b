-- Notifies the relays of new intents.
select pg_notify($1, '')
