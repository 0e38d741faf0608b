-- A moment after the rows of the shadow were committed.
update {schema}.builds set settled_at = coalesce(settled_at, clock_timestamp()) where number = $1
