-- As many intents as a backlog of $1 events over $2 aggregates would have written, with content of $3 bytes.
with written as (
    insert into {schema}.intents (
        key, consumer, source, id, aggregate, version, slot, class, provider, destination, ordering, on_dead, body, hash
    )
    select md5($4 || n), 1, 'bench', n::text, 'order/' || n % $2, n / $2 + 1, 'Derived', 'Derived', 'events', 'events',
        '5:bench6:events:order/' || n % $2, 'pass',
        convert_to('{"order":"' || n % $2 || '","text":"' || repeat('x', greatest($3 - 25, 1)) || '"}', 'UTF8'), ''
    from generate_series(1, $1::integer) as n
    returning seq, provider, destination, ordering
)
insert into {schema}.outbox (seq, provider, destination, lane, place)
select seq, provider, destination, ordering, seq from written
