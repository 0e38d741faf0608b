-- Whether an intent is left to send.
select exists (select from {schema}.outbox) or exists (select from {schema}.staged_intents)
