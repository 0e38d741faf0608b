-- The hash of an intent's content.
select hash from {schema}.intents where key = $1
