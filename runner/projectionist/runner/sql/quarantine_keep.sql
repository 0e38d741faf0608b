-- It was read again and stays, for this reason now; unless somebody has acted on it since that was asked for ($5).
update {schema}.quarantine
set attempts = attempts + 1, due = null, code = $3, reason = $6, detail = $7, source = coalesce($8, source),
    id = coalesce($9, id), aggregate = coalesce($10, aggregate), version = coalesce($11, version)
where consumer = $1 and incarnation = $2 and seq = $4 and state = 'quarantined' and due = $5
