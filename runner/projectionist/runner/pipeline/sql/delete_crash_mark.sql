-- The try came to an end, whichever.
delete from {schema}.crash_marks where consumer = $1 and source = $2 and id = $3
