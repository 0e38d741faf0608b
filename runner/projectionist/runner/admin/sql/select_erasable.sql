-- How much of an aggregate ($2) or an event ($3, $4) each table still holds for a consumer ($1): what an erase would touch.
select
    (select count(*) from {schema}.inbox i where i.consumer = $1 and (i.aggregate = $2 or i.source = $3 and i.id = $4)
        and (i.state in ('applied', 'ignored', 'stale', 'parked', 'quarantined')
            or i.data is not null or i.tracestate is not null)) as inbox,
    (select count(*) from {schema}.parked p where p.consumer = $1 and (p.aggregate = $2 or p.source = $3 and p.id = $4)
        and (not p.discarded or p.data is not null or p.error is not null)) as parked,
    (select count(*) from {schema}.quarantine q where q.consumer = $1 and (q.aggregate = $2 or q.source = $3 and q.id = $4)
        and (q.state = 'quarantined' or q.headers is not null or q.data is not null)) as quarantine,
    (select count(*) from {schema}.incidents n where n.consumer = $1 and (n.aggregate = $2 or n.source = $3 and n.id = $4)
        and n.detail <> 'erased') as incidents,
    (select count(*) from {schema}.decisions d where d.consumer = $1
        and (d.aggregate = $2 or d.source = $3 and d.id = $4 or exists (
            select from {schema}.quarantine q where q.consumer = d.consumer and q.incarnation = d.incarnation
                and q.seq = d.seq and (q.aggregate = $2 or q.source = $3 and q.id = $4)
        )) and (d.headers is not null or d.data is not null)) as decisions,
    (select count(*) from {schema}.intents t where t.consumer = $1 and t.state <> 'open'
        and (t.source, t.id) in (
            select i.source, i.id from {schema}.inbox i
            where i.consumer = $1 and (i.aggregate = $2 or i.source = $3 and i.id = $4)
        ) and (octet_length(t.body) > 0 or t.destination <> '')) as intents
