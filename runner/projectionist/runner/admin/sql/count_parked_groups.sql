-- How many groups of parked events there are, as they were counted.
select count(*) from (
    select from {schema}.parked_counts k join {schema}.consumers c on c.number = k.consumer
    where ($1::text is null or c.name = $1) and ($2::text is null or k.cause = $2) and ($3::text is null or k.type = $3)
        and ($4::text is null or k.alike = $4)
    group by k.consumer, k.cause, k.type, k.alike having sum(k.events) > 0
) groups
