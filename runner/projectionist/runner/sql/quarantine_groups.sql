-- What is in quarantine and alike, the largest group first.
select name as consumer, cause, why, count(*) as count, min(received) as oldest, min(seq) as sample
from {schema}.quarantine_seen
where state = 'quarantined' and ($1::text is null or name = $1) and ($2::text is null or cause = $2)
    and ($3::text is null or why = $3)
    and ($4::float8 is null or received < clock_timestamp() - $4 * interval '1 second')
group by name, cause, why
order by count(*) desc, min(received), name, cause
