-- How many intents are still on their way.
select count(*) from {schema}.outbox
