-- What a retirement takes away, and what is in its way: intents that are not settled.
select (select count(*) from {schema}.positions where consumer = $1) as positions,
    (select count(*) from {schema}.inbox where consumer = $1) as inbox,
    (select count(*) from {schema}.parked where consumer = $1) as parked,
    (select count(*) from {schema}.quarantine where consumer = $1 and state = 'quarantined') as quarantined,
    (select count(*) from {schema}.decisions where consumer = $1) as decisions,
    (select count(*) from {schema}.intents where consumer = $1) as intents,
    (select count(*) from {schema}.outbox o join {schema}.intents i on i.seq = o.seq where i.consumer = $1)
        + (select count(*) from {schema}.schedule where consumer = $1 and look is not null and promoted is null)
        + (select coalesce(sum(intents), 0) from {schema}.staged_intents where consumer = $1)::bigint as unsettled
