-- The slots under which a consumer has registered intents.
select name from {schema}.names where consumer = $1 and kind = 'slot'
