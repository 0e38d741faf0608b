-- Opens incidents, in stream order; the same fact is told once, and again where it had been settled by itself.
insert into {schema}.incidents as known (consumer, incarnation, kind, seq, source, id, aggregate, version, detail)
select $1, $2, kind, seq, source, id, aggregate, version, detail
from unnest($3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::text[])
    as fact (kind, seq, source, id, aggregate, version, detail)
on conflict (consumer, kind, incarnation, seq) do update
set opened = clock_timestamp(), closed = null, settled = null, detail = excluded.detail
where known.settled is not null and known.kind in ('purged', 'filtered', 'lost', 'implausible')
returning kind, seq
