-- An attempt of which nobody knows what came of it is not undone by a later one that is refused.

alter table {schema}.outbox add column doubted boolean not null default false;
comment on column {schema}.outbox.doubted is 'what came of an attempt before is unknown: it may have been done';
update {schema}.outbox o set doubted = true
where state = 'ready' and exists (
    select from {schema}.attempts a where a.intent = o.seq and a.outcome = 'unknown' and a.started >= o.first_started
);
