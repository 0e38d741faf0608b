-- Closes incidents that an operator has dealt with, and records who says so; those that were open.
with done as (
    update {schema}.incidents set closed = clock_timestamp()
    where number = any ($1::bigint[]) and closed is null
    returning number, consumer, kind
), told as (
    insert into {schema}.audit (who, action, object, reason, detail)
    select $2, 'close-incident', coalesce(c.name, '?') || ': incident ' || d.number, $3, jsonb_build_object('kind', d.kind)
    from done d left join {schema}.consumers c on c.number = d.consumer order by d.number
)
select number from done order by number
