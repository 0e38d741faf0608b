-- Has an operation be carried out by nobody until another takes it up, and says why.
update {schema}.operations set owner = null, beat = clock_timestamp(), note = $3
where number = $1 and epoch = $2 and ended is null
