-- The event of an intent, also of one in the archive; of one that a producer has added itself, none.
select source, id from {schema}.intents where key = $1
union all
select content ->> 'source', content ->> 'id' from {schema}.archive where kind = 'intents' and content ->> 'key' = $1
limit 1
