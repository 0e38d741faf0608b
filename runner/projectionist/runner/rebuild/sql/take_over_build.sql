-- Another process goes on with an open build; what the one before it still writes is refused.
update {schema}.builds set epoch = $2, owner = $3, partial = $4, touched = clock_timestamp() where number = $1 and ended is null
