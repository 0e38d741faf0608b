-- How many rows of the archive still have content of an aggregate ($1) or an event ($2, $3).
select count(*) from {schema}.archive a
where (a.kind = 'inbox' and (a.content ->> 'aggregate' = $1 or a.content ->> 'id' = $3 and a.content ->> 'source' = $2)
        or a.kind = 'intents' and (a.content ->> 'aggregate' = $1 or a.content ->> 'id' = $3 and a.content ->> 'source' = $2))
    and a.content ->> 'erased' is null
