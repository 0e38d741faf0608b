-- Locks an operation for one step of who carries it out under this epoch, which is its sign of life; none if it is not theirs.
update {schema}.operations set beat = clock_timestamp()
where number = $1 and epoch = $2 and ended is null
returning stop_asked_by, stop_reason
