-- Has another carry out an operation that nobody does: none has said so for $3 seconds, or whoever did has let go. Its epoch.
update {schema}.operations set owner = $2, epoch = epoch + 1, beat = clock_timestamp(), note = null
where number = $1 and ended is null and (owner is null or beat < clock_timestamp() - $3::float8 * interval '1 second')
returning epoch
