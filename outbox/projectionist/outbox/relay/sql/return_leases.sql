-- Gives leases back before anything was tried.
update {schema}.outbox set state = 'ready', token = null, lease_until = null
where seq = any ($2::bigint[]) and token = $1 and state = 'leased'
