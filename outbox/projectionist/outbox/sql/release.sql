-- Lets go again what was held for want of settings, of providers that are there now.
with mended as (
    update {schema}.breakers set held = null, changed = clock_timestamp()
    where provider = any ($1::text[]) and held = any ($2::text[])
    returning provider, destination
)
update {schema}.intents i set state = 'ready', due = null
where i.open and i.state = 'held' and i.provider = any (array(select provider from mended))
    and exists (select from mended m where m.provider = i.provider and m.destination in (i.destination, '*'))
