-- The durable goes on behind its floor: what was written down about its deliveries begins anew.
update {schema}.floors
set deliveries = 0, acked = null, durable_created = $3, written = clock_timestamp(),
    timeline = case when not pg_is_in_recovery()
        then ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer end
where consumer = $1 and durable = $2
