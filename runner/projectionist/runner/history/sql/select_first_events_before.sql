-- What live has applied of messages before sequence $2 of incarnation $3, and of earlier incarnations: the first event of
-- each aggregate and type. $4: of these aggregates alone, if any are named.
select aggregate, version, seq, type from (
    select distinct on (aggregate, type) aggregate, version, seq, type from {schema}.inbox
    where consumer = $1 and (incarnation < $3 or seq < $2) and state in ('applied', 'ignored')
        and (cardinality($4::text[]) = 0 or aggregate = any($4::text[]))
    order by aggregate, type, version, seq
) first
order by aggregate, version, seq
