-- Counts the parked events of one group, so many at most ($6), and names the first of them in the stream; $5: those alone that are
-- to be decided about, as in select_parked. Looked at one by one in the order of an index, so that no more is read than is counted; the
-- name is the one that was given, since looking it up for each event took as long as all else.
with few as materialized (
    select $1 as name, s.source, s.id, s.ordered, s.aggregate, e.incarnation, e.seq
    from {schema}.parked e
    cross join lateral (
        select * from {schema}.parked_seen
        where consumer = e.consumer and source = e.source and id = e.id
            and (not $5 or heads and (next_try is null or next_try > clock_timestamp()))
        limit 1
    ) s
    where e.consumer = (select number from {schema}.consumers where name = $1) and e.cause = $2 and e.type = $3 and e.alike = $4
    order by e.incarnation, e.seq limit $6
)
select n.events, first.* from (select count(*) as events from few) n cross join lateral (
    select name, source, id, ordered, aggregate from few order by incarnation, seq limit 1
) first
