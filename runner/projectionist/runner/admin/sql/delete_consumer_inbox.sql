-- A consumer begins anew.
delete from {schema}.inbox where consumer = $1
