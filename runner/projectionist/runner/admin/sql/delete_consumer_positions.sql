-- A consumer begins anew.
delete from {schema}.positions where consumer = $1
