-- Where each aggregate of the batch stands now. The rows are locked since `lock_positions`. A head or a count of parked
-- events that all of them share comes once, beside an empty array; an empty array of the others stands for nulls. The
-- aggregates come as one text, divided by U+001F.
insert into {schema}.positions (consumer, aggregate, version, head, parked, due, seq, finding)
select $1, aggregate, version, coalesce(head, $2), coalesce(parked, $3),
    coalesce(clock_timestamp() + delay * interval '1 second', due), seq, finding
from unnest($4::text[], $5::integer[], string_to_array($6, e'\x1f'), $7::bigint[], $8::float8[], $9::timestamptz[], $10::bigint[],
    $11::text[]) as moved (head, parked, aggregate, version, delay, due, seq, finding)
on conflict (consumer, aggregate) do update
set version = excluded.version, head = excluded.head, parked = excluded.parked,
    due = excluded.due, seq = coalesce(excluded.seq, positions.seq),
    finding = excluded.finding
