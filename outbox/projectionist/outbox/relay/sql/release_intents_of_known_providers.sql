-- Releases intents and destinations that were held for want of settings, of providers that the app has now.
with mended as (
    update {schema}.circuits set held = null, changed = clock_timestamp()
    where provider = any ($1::text[]) and held = any ($2::text[])
    returning provider, destination
)
update {schema}.outbox o set state = 'ready', due = null
where o.open and o.state = 'held' and o.provider = any (array(select provider from mended))
    and exists (select from mended m where m.provider = o.provider and m.destination in (o.destination, '*'))
