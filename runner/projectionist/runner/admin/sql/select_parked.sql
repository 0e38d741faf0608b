-- Parked events one by one, in the order of the stream; $9: those alone that their aggregate waits for and that are not due yet.
select consumer, name, source, id, type, aggregate, version, ordered, cause, why, own, attempts, parked_at, next_try, position,
    head, finding, heads, waits
from {schema}.parked_seen
where ($1::text is null or name = $1) and ($2::text is null or cause = $2) and ($3::text is null or type = $3)
    and ($4::text is null or aggregate = $4) and ($5::text is null or $5 in (why, own, alike))
    and ($6::float8 is null or parked_at < clock_timestamp() - $6 * interval '1 second')
    and ($7::text[] is null or id = any ($7)) and ($8::text is null or source = $8)
    and (not $9 or heads and (next_try is null or next_try > clock_timestamp()))
order by incarnation, seq, name
limit $10
