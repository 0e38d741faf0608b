-- What batches of a thousand events would have staged: $1 intents over $2 aggregates, with content of $3 bytes.
insert into {schema}.staged_intents (consumer, incarnation, intents, encoded)
select 1, 1, count(*), convert_to(
    json_build_object(
        'key', json_agg(md5($4 || n)), 'source', json_agg('bench'::text), 'id', json_agg(n::text),
        'aggregate', json_agg('order/' || n % $2), 'version', json_agg(n / $2 + 1), 'slot', json_agg('Derived'::text),
        'class_name', json_agg('Derived'::text), 'provider', json_agg('events'::text), 'destination', json_agg('events'::text),
        'ordering', json_agg('5:bench6:events:order/' || n % $2), 'on_dead', json_agg('pass'::text),
        'body', json_agg('{"order":"' || n % $2 || '","text":"' || repeat('x', greatest($3 - 25, 1)) || '"}'),
        'traceparent', json_agg(null::text), 'tracestate', json_agg(null::text), 'seq', json_agg(n)
    )::text, 'UTF8')
from generate_series(1, $1::integer) as n
group by n / 1000
order by n / 1000
