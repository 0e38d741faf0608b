-- The shadow has caught up: what a snapshot from before this transaction shows of it is older than that snapshot. One that was
-- written down less than $2 seconds ago stays, so that a swap that was left does not wait for ever later readers.
update {schema}.builds set settled = pg_current_xact_id(), settled_at = clock_timestamp()
where number = $1 and (settled is null or settled_at is null or settled_at < clock_timestamp() - $2::float8 * interval '1 second'
    or settled_at > clock_timestamp())
returning number
