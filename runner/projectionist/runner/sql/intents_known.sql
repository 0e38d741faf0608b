-- What is stored under these intent keys.
select key, hash from {schema}.intents where key = any($1::text[])
