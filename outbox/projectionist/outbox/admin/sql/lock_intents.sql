-- Locks open intents in order, so that nothing changes between a look and an act.
select o.seq from {schema}.outbox o
where o.seq = any (array(select seq from {schema}.intents where key = any ($1::text[])))
order by o.seq for update
