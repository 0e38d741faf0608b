-- Who holds a lease, and until when.
select owner, expires_at, expires_at > clock_timestamp() as held from {schema}.leases where name = $1
