-- A consumer begins anew.
delete from {schema}.parked where consumer = $1
