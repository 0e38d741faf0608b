-- The archive is looked into by whoever asks for the event of an intent.
create index archive_intent on {schema}.archive (((content ->> 'key'))) where kind = 'intents';
