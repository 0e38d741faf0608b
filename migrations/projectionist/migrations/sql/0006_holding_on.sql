-- What a consumer knows of its stream and durable, apart from the broker's own word; and what it was about to try.

alter table {schema}.runners drop column backend_pid, add column backends integer[] not null default '{}';
comment on column {schema}.runners.backends is 'The sessions of its batches, for whoever they keep waiting when it is dead or frozen.';

create table {schema}.floors (
    consumer        integer     not null,
    durable         text        collate "C" not null,
    incarnation     integer     not null,
    floor           bigint      not null default 0,
    floor_hash      bytea,
    floor_stored    text,
    top             bigint      not null default 0,
    top_hash        bytea,
    top_stored      text,
    seen            bigint      not null default 0,
    deliveries      bigint      not null default 0,
    durable_created timestamptz,
    timeline        integer,
    written         timestamptz not null default clock_timestamp(),
    primary key (consumer, durable)
) with (fillfactor = 50);
comment on table {schema}.floors is
    'Written every few seconds in a transaction of its own: whatever lies at or below a floor was committed before it.';
comment on column {schema}.floors.floor is 'The broker''s ack floor: up to here every event of the stream is settled.';
comment on column {schema}.floors.floor_hash is 'Of the content of the message there, which shows that a stream is another one.';
comment on column {schema}.floors.top is 'The last message of the stream when this was written.';
comment on column {schema}.floors.seen is 'Up to here nothing of this consumer was outstanding, whoever the messages are for.';
comment on column {schema}.floors.deliveries is 'The broker''s count; one that is lower later was reset by somebody else.';
comment on column {schema}.floors.timeline is 'Of PostgreSQL: another one means a failover or a restore.';

create table {schema}.tried (
    consumer integer     not null,
    source   text        collate "C" not null,
    id       text        collate "C" not null,
    marks    integer     not null default 1,
    runner   integer     not null,
    at       timestamptz not null default clock_timestamp(),
    primary key (consumer, source, id)
);
comment on table {schema}.tried is
    'Events that were about to be tried after a process had ended uncleanly. A mark that stays is a try without an end.';
