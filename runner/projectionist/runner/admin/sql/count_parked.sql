-- Counts parked events, so many at most ($10), and names the first of them in the stream; filters and $9 are those of select_parked.
-- A digest is compared with digests alone: the texts would have to be made of each.
with few as materialized (
    select name, source, id, ordered, aggregate, incarnation, seq from {schema}.parked_seen
    where ($1::text is null or name = $1) and ($2::text is null or cause = $2) and ($3::text is null or type = $3)
        and ($4::text is null or aggregate = $4)
        and ($5::text is null or alike = $5 or $5 !~ '^[0-9a-f]{8}$' and $5 in (why, own))
        and ($6::float8 is null or parked_at < clock_timestamp() - $6 * interval '1 second')
        and ($7::text[] is null or id = any ($7)) and ($8::text is null or source = $8)
        and (not $9 or heads and (next_try is null or next_try > clock_timestamp()))
    order by incarnation, seq, name limit $10
)
select n.events, first.* from (select count(*) as events from few) n cross join lateral (
    select name, source, id, ordered, aggregate from few order by incarnation, seq, name limit 1
) first
