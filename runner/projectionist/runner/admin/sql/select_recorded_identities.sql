-- The next events of an aggregate ($1) or the event ($2, $3) of which a producer's intent still has content, at most $4.
select source, id from {schema}.intents
where consumer = 0 and state <> 'open' and (aggregate = $1 or source = $2 and id = $3)
    and (octet_length(body) > 0 or destination <> '')
order by seq
limit $4
