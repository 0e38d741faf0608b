-- Counts entries of quarantine, so many at most ($6), and names the oldest of them; filters and $5 are those of select_quarantine.
with few as materialized (
    select consumer, incarnation, seq, received, name from {schema}.quarantine_seen
    where state = 'quarantined' and ($1::text is null or name = $1) and ($2::text is null or cause = $2)
        and ($3::text is null or $3 in (why, own, left(encode(sha256(convert_to(why, 'UTF8')), 'hex'), 8)))
        and ($4::float8 is null or received < clock_timestamp() - $4 * interval '1 second') and (not $5 or due is null)
    order by received, name, incarnation, seq limit $6
)
select n.entries, first.* from (select count(*) as entries from few) n cross join lateral (
    select consumer, incarnation, seq from few order by received, name, incarnation, seq limit 1
) first
