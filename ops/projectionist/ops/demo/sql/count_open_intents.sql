-- How many intents are still on their way, those that nobody has opened with them.
select (select count(*) from {schema}.outbox) + (select coalesce(sum(intents), 0) from {schema}.staged_intents)
