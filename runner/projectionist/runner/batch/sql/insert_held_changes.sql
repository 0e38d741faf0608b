-- What the batch has changed of how many aggregates are held, by the state of their heads.
insert into {schema}.held_counts (consumer, head, aggregates, events)
select $1, head, aggregates, events from unnest($2::text[], $3::bigint[], $4::bigint[]) as changed (head, aggregates, events)
