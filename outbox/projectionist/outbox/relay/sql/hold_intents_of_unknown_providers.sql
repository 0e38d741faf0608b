-- Holds intents of this app's consumers for a provider that the app lacks.
with held as (
    update {schema}.outbox o set state = 'held', error = 'the app has no provider of this name'
    from {schema}.intents i
    where o.open and o.state = 'ready' and o.provider = $1 and i.seq = o.seq
        and i.consumer = any (array(select number from {schema}.consumers where name = any ($2::text[])))
    returning o.provider
),
told as (
    insert into {schema}.circuits (provider, destination, held) select distinct provider, '*', 'missing' from held
    on conflict (provider, destination) do update set held = 'missing', changed = clock_timestamp()
)
select count(*) from held
