-- Records that attempt n+1 of each intent begins, before its first byte. Who is not returned must not be sent.
update {schema}.intents i
set state = 'started', attempt = i.attempt + 1, spent = i.spent + 1, started = clock_timestamp(),
    first_started = coalesce(i.first_started, clock_timestamp()), mark = coalesce(i.mark, n.mark),
    wire = case when i.wire_hash is null then n.wire else i.wire end, wire_hash = coalesce(i.wire_hash, n.wire_hash)
from unnest($2::bigint[], $3::bytea[], $4::bytea[], $5::text[]) as n (seq, wire, wire_hash, mark)
where i.seq = any ($2) and i.seq = n.seq
    -- One condition to the planner, which would take three for so rare that it joins row by row.
    and coalesce(
        i.token = $1 and i.state = 'leased' and i.lease_until > clock_timestamp()
        and coalesce(i.first_started > clock_timestamp() - make_interval(secs => $6), true),
        false
    )
returning i.seq
