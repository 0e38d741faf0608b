-- A consumer begins anew.
delete from {schema}.tried where consumer = $1
