-- A consumer begins anew.
delete from {schema}.dirty where consumer = $1
