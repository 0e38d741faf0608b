-- What a reset takes away, and what it leaves.
select (select count(*) from {schema}.positions where consumer = $1) as positions,
    (select count(*) from {schema}.inbox where consumer = $1) as inbox,
    (select count(*) from {schema}.parked where consumer = $1) as parked,
    (select count(*) from {schema}.decisions where consumer = $1) as decisions,
    (select count(*) from {schema}.schedule where consumer = $1 and look is not null and promoted is null) as scheduled,
    (select count(*) from {schema}.decisions d where d.consumer = $1 and d.kind = 'edit' and d.headers is null and d.data is null
        and not exists (
            select from {schema}.decisions e where e.consumer = d.consumer and e.kind = 'erase' and (
                e.source = d.source and e.id = d.id or e.incarnation = d.incarnation and e.seq = d.seq
                or e.aggregate = d.aggregate and d.version between e.version and coalesce(e.upto, e.version)
            )
        )) as forgotten
