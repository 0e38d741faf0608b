-- Records that attempt n+1 of each intent begins, before its first byte. One that is not returned must not be sent.
update {schema}.outbox o
set state = 'started', attempt = o.attempt + 1, spent = o.spent + 1, started = clock_timestamp(),
    first_started = coalesce(o.first_started, clock_timestamp()), lookup_hint = coalesce(o.lookup_hint, n.lookup_hint),
    wire = case when o.wire_hash is null then n.wire else o.wire end, wire_hash = coalesce(o.wire_hash, n.wire_hash)
from unnest($2::bigint[], $3::bytea[], $4::bytea[], $5::text[]) as n (seq, wire, wire_hash, lookup_hint)
where o.seq = any ($2) and o.seq = n.seq
    -- One condition to the planner, which would take three for so rare that it joins row by row.
    and coalesce(
        o.token = $1 and o.state = 'leased' and o.lease_until > clock_timestamp()
        and coalesce(o.first_started > clock_timestamp() - make_interval(secs => $6), true),
        false
    )
returning o.seq, o.first_started, o.wire_hash
