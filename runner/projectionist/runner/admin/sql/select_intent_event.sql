-- The event of an intent; of one that a producer has added itself, none.
select source, id from {schema}.intents where key = $1
