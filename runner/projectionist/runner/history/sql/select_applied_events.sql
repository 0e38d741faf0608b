-- What live has applied, or passed over as of no handler, from sequence $2 of incarnation $3 on, in the order of the stream;
-- of some aggregates ($4), if any are named.
select seq, aggregate, version, type from {schema}.inbox
where consumer = $1 and incarnation = $3 and seq >= $2 and state in ('applied', 'ignored')
    and (cardinality($4::text[]) = 0 or aggregate = any($4::text[]))
order by seq
