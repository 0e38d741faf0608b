-- A consumer begins anew.
delete from {schema}.duplicates where consumer = $1
