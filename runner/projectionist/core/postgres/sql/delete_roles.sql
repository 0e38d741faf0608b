-- Takes from record which roles had a duty and have it no more.
delete from {schema}.roles where duty = $1::text and role <> all($2::text[])
