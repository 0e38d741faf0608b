-- Takes up gaps that are still due. Each is due again when it is twice as old, after $3 seconds at the earliest and half a
-- minute at the latest: who fills it drains it, without being looked for. One that misses nothing drains. The positions are
-- locked.
with stand as materialized (
    select p.aggregate, coalesce(first.version > p.version + 1, false) as lacks, clock_timestamp() - first.parked_at as age
    from {schema}.positions p
    left join lateral (
        select version, parked_at from {schema}.parked e
        where e.consumer = p.consumer and e.aggregate = p.aggregate and e.ordered
        order by version limit 1
    ) first on true
    where p.consumer = $1 and p.aggregate = any($2::text[]) and p.head = 'gap' and p.due <= clock_timestamp()
), taken as (
    update {schema}.positions p
    set head = case when lacks then 'gap' else 'draining' end,
        due = clock_timestamp()
            + case when lacks then least(interval '30 s', greatest($3::float8 * interval '1 second', age)) else interval '0' end
    from stand where p.consumer = $1 and p.aggregate = stand.aggregate
    returning p.aggregate, p.parked, lacks
), counted as (
    insert into {schema}.held_counts (consumer, head, aggregates, events)
    select $1, s.head, s.n * count(*), s.n * sum(taken.parked)
    from taken cross join (values ('gap', -1), ('draining', 1)) s (head, n)
    where not taken.lacks
    group by s.head, s.n
)
select aggregate from taken where lacks order by aggregate
