-- The next events of an aggregate ($2, up to version $5 where there is an order) or the event ($3, $4) that still have
-- content, at most $6, locked in the order in which batches claim. Without order what was applied since the decision is new.
select source, id from {schema}.inbox
where consumer = $1 and (aggregate = $2 and (
            version <= $5 or state in ('quarantined', 'skipped', 'discarded')
            or $5::bigint is null and (state <> 'applied' or (source, id) in (
                select d.source, d.id from {schema}.decisions d where d.consumer = $1 and d.aggregate = $2 and d.kind = 'erase'
            ))
        ) or source = $3 and id = $4)
    and (state in ('applied', 'ignored', 'stale', 'quarantined') or data is not null or tracestate is not null)
order by source, id
limit $6
for update
