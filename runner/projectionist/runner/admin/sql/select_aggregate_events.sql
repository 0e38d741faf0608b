-- The newest events of an aggregate that a consumer's inbox holds, in order.
select * from (
    select version, source, id, type, state, verdict, seq, received, processed
    from {schema}.inbox where consumer = $1 and aggregate = $2
    order by version desc nulls last, seq desc limit $3
) newest
order by version nulls first, seq
