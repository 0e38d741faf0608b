-- One row, the new epoch, if the lease was free, over, or this owner's already; none while another holds it.
-- One that lies further ahead than any grant of it was made by a clock that has gone back since, and is over too.
-- The times in the update are taken after the wait for the row, so a lease that ended meanwhile is seen as over.
insert into {schema}.leases as held (name, owner, epoch, expires_at)
values ($1, $2, 1, clock_timestamp() + make_interval(secs => $3))
on conflict (name) do update
set owner = excluded.owner, epoch = held.epoch + 1, expires_at = clock_timestamp() + make_interval(secs => $3)
where held.expires_at <= clock_timestamp() or held.expires_at > clock_timestamp() + make_interval(secs => $3)
    or held.owner = excluded.owner
returning epoch
