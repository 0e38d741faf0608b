-- It was read again and stays, for this reason now; unless somebody has acted on it since that was asked for ($5).
-- $12: what the server may be to blame for is read again after so many seconds, ever more rarely, at most $13 times.
update {schema}.quarantine
set attempts = attempts + 1, due = case when attempts + 1 < $13
        then clock_timestamp() + $12::float8 * least(2 ^ least(attempts + 1, 10), 60) * interval '1 second' end, code = $3, reason = $6, detail = $7, source = coalesce($8, source),
    id = coalesce($9, id), aggregate = coalesce($10, aggregate), version = coalesce($11, version)
where consumer = $1 and incarnation = $2 and seq = $4 and state = 'quarantined' and due = $5
