-- Removes entries that have been settled; all of one source.
delete from {schema}.parked where consumer = $1 and source = $2 and id = any($3::text[])
