-- Who holds or held a lease, and until when; one that was let go, and did not run out, ends at -infinity.
select owner, expires_at, isfinite(expires_at) as unreleased from {schema}.leases where name = $1
