-- Quarantine one by one, the oldest first; $5: only what is not asked to be read again already.
select consumer, name, incarnation, seq, cause, why, own, subject, source, id, aggregate, version, attempts, due, size, received
from {schema}.quarantine_seen
where state = 'quarantined' and ($1::text is null or name = $1) and ($2::text is null or cause = $2)
    and ($3::text is null or $3 in (why, own, left(encode(sha256(convert_to(why, 'UTF8')), 'hex'), 8)))
    and ($4::float8 is null or received < clock_timestamp() - $4 * interval '1 second') and (not $5 or due is null)
order by received, name, incarnation, seq
limit $6
