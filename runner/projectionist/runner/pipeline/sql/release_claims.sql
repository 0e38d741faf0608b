-- Gives claims back with what they were for; the positions are locked.
update {schema}.positions set owner = null
where consumer = $1 and aggregate = any($2::text[]) and owner = $3
