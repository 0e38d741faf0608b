-- Events of one source that were applied without effect, because their condition (`when=`) did not hold.
update {schema}.inbox set idle = true where consumer = $1 and source = $2 and id = any($3::text[])
