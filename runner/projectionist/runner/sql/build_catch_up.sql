-- The bulk is in: $2 remembers the transaction, which snapshots from before it do not see.
update {schema}.builds
set phase = 'catch_up', settled = pg_current_xact_id(), touched = clock_timestamp() where number = $1
