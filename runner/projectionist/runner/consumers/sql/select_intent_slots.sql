-- The slots under which a view has registered intents.
select name from {schema}.names where view = $1 and kind = 'slot'
