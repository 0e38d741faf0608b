-- Takes the content out of settled intents of these events and out of their attempts; key, hashes and the provider's id stay.
-- Circuits and buckets of their destinations go with it, but for those that something is still to be sent to.
with due as (
    select t.seq, t.provider, t.destination
    from unnest($2::text[], $3::text[]) as e (source, id)
    join {schema}.intents t on t.consumer = $1 and t.source = e.source and t.id = e.id
    where t.state <> 'open'
), emptied as (
    update {schema}.intents t
    set body = ''::bytea, destination = '', ordering = null, scope = null, excerpt = null, error = null, tracestate = null, baggage = null
    from due where t.seq = due.seq
    returning t.seq
), tries as (
    update {schema}.attempts a set excerpt = null, reason = null
    from due where a.intent = due.seq
), idle as materialized (
    select distinct provider, destination from due
    where not exists (
        select from {schema}.outbox o where o.provider = due.provider and o.destination = due.destination
    )
), opened as (
    delete from {schema}.circuits c using idle where c.provider = idle.provider and c.destination = idle.destination
), filled as (
    delete from {schema}.buckets b using idle where b.provider = idle.provider and b.destination = idle.destination
)
select count(*) from emptied
