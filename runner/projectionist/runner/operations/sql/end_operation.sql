-- Ends an operation that is carried out under this epoch.
update {schema}.operations set ended = clock_timestamp(), beat = clock_timestamp(), outcome = $3, note = $4
where number = $1 and epoch = $2 and ended is null
