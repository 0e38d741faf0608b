-- Parked events that are alike, of those that are chosen one by one, the largest group first; of each the first of the stream. One
-- text that all have is whole.
select name as consumer, cause, type, alike,
    case when min(why) = max(why) then min(why) else split_part(min(why), ': ', 1) end as why,
    case when min(own) = max(own) then min(own) end as own, count(*) as count,
    count(*) filter (where waits) as waiting, min(parked_at) as oldest, (array_agg(id order by incarnation, seq))[1] as sample,
    (array_agg(source order by incarnation, seq))[1] as source
from {schema}.parked_seen
where ($1::text is null or name = $1) and ($2::text is null or cause = $2) and ($3::text is null or type = $3)
    and ($4::text is null or aggregate = $4) and ($5::text is null or $5 in (why, own, alike))
    and ($6::float8 is null or parked_at < clock_timestamp() - $6 * interval '1 second')
    and ($7::text[] is null or id = any ($7)) and ($8::text is null or source = $8)
group by name, cause, type, alike
order by count(*) desc, min(parked_at), name, cause, type
