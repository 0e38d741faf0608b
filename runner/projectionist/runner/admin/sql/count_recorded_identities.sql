-- How many intents of producers still have content of an aggregate ($1) or an event ($2, $3).
select count(*) from {schema}.intents
where consumer = 0 and state <> 'open' and (aggregate = $1 or source = $2 and id = $3)
    and (octet_length(body) > 0 or destination <> '')
