-- Writes replies. A reply counts for its own attempt alone, however late; SENT is evidence in any state.
with reply as materialized (
    select * from unnest(
        $3::bigint[], $4::integer[], $5::text[], $6::boolean[], $7::float8[], $8::integer[], $9::boolean[],
        $10::text[], $11::boolean[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::boolean[],
        $18::float8[], $19::uuid[]
    ) as r (
        seq, attempt, state, open, wait_s, spent, forget, fact, tried, outcome, status, provider_id, reason, excerpt,
        replayed, took_s, token
    )
),
gone as (
    delete from {schema}.outbox o using reply r
    where r.state = 'sent' and o.seq = any ($3) and o.seq = r.seq and o.attempt = r.attempt and o.open
    returning o.seq, o.attempt, o.started, o.first_started, o.wire_hash
),
kept as (
    update {schema}.outbox o
    set state = r.state, open = r.open, due = clock_timestamp() + make_interval(secs => r.wait_s), spent = r.spent,
        first_started = case when not r.forget then o.first_started end,
        doubted = not r.forget and (o.doubted or r.outcome = 'unknown'), token = null, lease_until = null,
        error = r.reason
    from reply r
    where r.state <> 'sent' and o.seq = any ($3) and o.seq = r.seq and o.attempt = r.attempt
        and (o.state in ('started', 'unknown') or (o.state = 'leased' and o.token = r.token))
    returning o.seq, o.attempt, o.started
),
sent as (
    update {schema}.intents i
    set state = 'sent', attempt = g.attempt, settled = clock_timestamp(), memory_s = $2,
        first_started = g.first_started, wire_hash = g.wire_hash, status = r.status, provider_id = r.provider_id,
        excerpt = r.excerpt, error = r.reason
    from gone g join reply r on r.seq = g.seq
    where i.seq = any ($3) and i.seq = g.seq
),
logged as (
    insert into {schema}.attempts as a
        (intent, attempt, relay, started, took_s, outcome, status, provider_id, reason, excerpt, replayed)
    select s.seq, s.attempt, $1, s.started, r.took_s, r.outcome, r.status, r.provider_id, r.reason, r.excerpt, r.replayed
    from (select seq, attempt, started from gone union all select seq, attempt, started from kept) as s
    join reply r on r.seq = s.seq
    where r.tried and s.started is not null
    on conflict (intent, attempt) do update
    set relay = excluded.relay, took_s = excluded.took_s, outcome = excluded.outcome, status = excluded.status,
        provider_id = excluded.provider_id, reason = excluded.reason, excerpt = excluded.excerpt,
        replayed = excluded.replayed
    where a.outcome = 'unknown' and excluded.outcome <> 'unknown'
),
told as (
    insert into {schema}.incidents (consumer, kind, incarnation, seq, source, id, aggregate, version, detail)
    select i.consumer, r.fact, 0, i.seq, i.source, i.id, i.aggregate, i.version, i.provider || ': ' || r.reason
    from kept k join reply r on r.seq = k.seq join {schema}.intents i on i.seq = k.seq
    where r.fact is not null
    on conflict do nothing
)
select seq from gone union all select seq from kept
