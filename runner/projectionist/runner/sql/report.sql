-- Opens incidents, in stream order; the same fact is told once.
insert into {schema}.incidents (consumer, incarnation, kind, seq, source, id, aggregate, version, detail)
select $1, $2, kind, seq, source, id, aggregate, version, detail
from unnest($3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::text[])
    as fact (kind, seq, source, id, aggregate, version, detail)
on conflict do nothing
returning kind, seq
