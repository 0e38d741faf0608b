-- One row if the lease is still held under this epoch; none once it is over, even if nobody has taken it yet.
update {schema}.leases set expires_at = clock_timestamp() + make_interval(secs => $3)
where name = $1 and epoch = $2 and expires_at > clock_timestamp()
returning epoch
