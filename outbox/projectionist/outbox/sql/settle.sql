-- Writes what came of attempts. A reply counts for its own attempt alone, however late; SENT is evidence in any state.
with settled as (
    update {schema}.intents i
    set state = r.state, open = r.open, due = clock_timestamp() + make_interval(secs => r.wait_s), spent = r.spent,
        first_started = case when not r.forget then i.first_started end, token = null, lease_until = null,
        status = r.status, provider_id = r.provider_id, excerpt = r.excerpt, error = r.reason,
        settled = case when not r.open then clock_timestamp() end, memory_s = $2
    from unnest(
        $3::bigint[], $4::integer[], $5::text[], $6::boolean[], $7::float8[], $8::integer[], $9::boolean[],
        $10::text[], $11::boolean[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::boolean[],
        $18::float8[], $19::uuid[]
    ) as r (
        seq, attempt, state, open, wait_s, spent, forget, fact, tried, outcome, status, provider_id, reason, excerpt,
        replayed, took_s, token
    )
    where i.seq = any ($3) and i.seq = r.seq and i.attempt = r.attempt
        and (
            i.state in ('started', 'unknown')
            or (i.state = 'leased' and i.token = r.token)
            or (r.state = 'sent' and i.open)
        )
    returning i.seq, i.consumer, i.source, i.id, i.aggregate, i.version, i.provider, i.attempt, i.started,
        r.fact, r.tried, r.outcome, r.status, r.provider_id, r.reason, r.excerpt, r.replayed, r.took_s
),
logged as (
    insert into {schema}.attempts as a
        (intent, attempt, relay, started, took_s, outcome, status, provider_id, reason, excerpt, replayed)
    select seq, attempt, $1, started, took_s, outcome, status, provider_id, reason, excerpt, replayed
    from settled
    where tried and started is not null
    on conflict (intent, attempt) do update
    set relay = excluded.relay, took_s = excluded.took_s, outcome = excluded.outcome, status = excluded.status,
        provider_id = excluded.provider_id, reason = excluded.reason, excerpt = excluded.excerpt,
        replayed = excluded.replayed
    where a.outcome = 'unknown' and excluded.outcome <> 'unknown'
),
told as (
    insert into {schema}.incidents (consumer, kind, incarnation, seq, source, id, aggregate, version, detail)
    select consumer, fact, 0, seq, source, id, aggregate, version, provider || ': ' || reason
    from settled
    where fact is not null
    on conflict do nothing
)
select seq from settled
