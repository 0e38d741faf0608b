-- What has been decided about one event, or about its version.
select at, kind, actor, reason, upto, encode(hash, 'hex') as hash from {schema}.decisions
where consumer = $1 and (source = $2 and id = $3 or aggregate = $4 and version <= $5 and coalesce(upto, version) >= $5)
order by number
