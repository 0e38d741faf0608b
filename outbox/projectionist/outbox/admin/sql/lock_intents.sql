-- Locks open intents in order, so that nothing changes between a look and an act: in the schedule first, as who promotes does.
with chosen as materialized (
    select seq from {schema}.intents where key = any ($1::text[])
),
scheduled as materialized (
    select intent from {schema}.schedule where intent = any (array(select seq from chosen)) order by intent for update
)
select o.seq from {schema}.outbox o
where o.seq = any (array(select seq from chosen)) and (select count(*) from scheduled) >= 0
order by o.seq for update
