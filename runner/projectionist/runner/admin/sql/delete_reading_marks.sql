-- Nobody has tried to read it as it is from now on.
delete from {schema}.crash_marks where consumer = $1 and source = 'reading' and id like $2::integer || '/' || $3::bigint || '/%'
