-- Gives leases back of which no attempt has begun.
update {schema}.outbox set state = 'ready', token = null, lease_until = null
where seq = any ($2::bigint[]) and token = $1 and state = 'leased'
