-- Tells the relays that there are new intents.
select pg_notify($1, '')
