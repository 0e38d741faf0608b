-- The try came to an end, whichever.
delete from {schema}.tried where consumer = $1 and source = $2 and id = $3
