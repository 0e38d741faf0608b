-- Where each aggregate of the batch stands now. The rows are locked since `positions`.
insert into {schema}.positions (consumer, aggregate, version, head, parked, due, seq)
select $1, aggregate, version, head, parked, coalesce(clock_timestamp() + delay * interval '1 second', due), seq
from unnest($2::text[], $3::bigint[], $4::text[], $5::integer[], $6::float8[], $7::timestamptz[], $8::bigint[])
    as moved (aggregate, version, head, parked, delay, due, seq)
on conflict (consumer, aggregate) do update
set version = excluded.version, head = excluded.head, parked = excluded.parked, due = excluded.due,
    seq = coalesce(excluded.seq, positions.seq),
    finding = case when excluded.head = 'waiting' and positions.head = 'waiting' then positions.finding end
