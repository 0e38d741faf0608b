-- Where each aggregate of the batch stands now. The rows are locked since `positions`.
insert into {schema}.positions (consumer, aggregate, version, head, parked, due, seq)
select $1, aggregate, version, head, parked, clock_timestamp() + delay * interval '1 second', seq
from unnest($2::text[], $3::bigint[], $4::text[], $5::integer[], $6::float8[], $7::bigint[])
    as moved (aggregate, version, head, parked, delay, seq)
on conflict (consumer, aggregate) do update
set version = excluded.version, head = excluded.head, parked = excluded.parked, due = excluded.due,
    seq = coalesce(excluded.seq, positions.seq), finding = null
