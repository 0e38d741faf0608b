-- Parks events, and counts them; one that finds its version taken is not returned, and is a second event of that version.
with parked as (
    insert into {schema}.parked (
        consumer, incarnation, source, id, cause, aggregate, version, ordered, seq, subject, type, event_schema, event_time,
        correlation, causation, traceparent, tracestate, hash, data, problem, attempts, budget, due,
        error_class, error, stack, baggage, view, code, first_failed, last_failed
    )
    select $1, $2, source, id, cause, aggregate, version, ordered, seq, subject, type, event_schema, event_time,
        correlation, causation, traceparent, tracestate, hash, data, problem, attempts, budget,
        clock.now + delay * interval '1 second', error_class, error, stack, baggage, view,
        case when error is not null then $29::bytea end,
        case when error is not null then clock.now end, case when error is not null then clock.now end
    from clock_timestamp() as clock (now), unnest(
        $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::boolean[], $9::bigint[], $10::text[], $11::text[],
        $12::integer[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::bytea[], $19::bytea[],
        $20::text[], $21::integer[], $22::integer[], $23::float8[], $24::text[], $25::text[], $26::text[],
        $27::text[], $28::integer[]
    ) as fresh (
        source, id, cause, aggregate, version, ordered, seq, subject, type, event_schema, event_time,
        correlation, causation, traceparent, tracestate, hash, data, problem, attempts, budget, delay,
        error_class, error, stack, baggage, view
    )
    on conflict do nothing
    returning source, id, cause, type, alike, {schema}.parked_state(ordered, cause, due) as state
), counted as (
    insert into {schema}.parked_counts (consumer, cause, type, alike, state, events)
    select $1, cause, type, alike, state, count(*) from parked group by cause, type, alike, state
)
select source, id from parked
