-- What batches wish for, a row a batch and not five index entries an intent: a relay opens it, outside the hot path.
create table {schema}.wishes (
    seq bigint generated always as identity primary key,
    consumer integer not null,
    incarnation integer not null,
    intents integer not null,
    wished bytea not null,
    created timestamptz not null default clock_timestamp()
) with (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 10000
);
comment on table {schema}.wishes is 'One row per batch that asked for side effects, until they stand in intents and outbox.';
comment on column {schema}.wishes.intents is 'how many they are';
comment on column {schema}.wishes.wished is 'JSON: for each column of intents its values, in the order they were asked for';
-- To compress would cost more than to write.
alter table {schema}.wishes alter column wished set storage external;
