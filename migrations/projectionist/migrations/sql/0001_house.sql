-- What every later table stands on: the ledger of migrations, consumers, streams, leases and the audit trail.

create table {schema}.migrations (
    number     int         primary key,
    name       text        collate "C" not null,
    checksum   bytea       not null,
    release    text        not null,
    applied_at timestamptz not null default clock_timestamp()
);
comment on table {schema}.migrations is 'One row per applied migration; the checksum shows when a released file was edited.';

-- The control row: read by every batch after it holds the consumer's barrier, changed by nobody without the exclusive one.
create table {schema}.consumers (
    number              int         generated always as identity primary key,
    name                text        collate "C" not null unique,
    kind                text        collate "C" not null,
    revision            int         not null default 1,
    shape               bytea       not null,
    code                bytea       not null,
    epoch               bigint      not null default 1,
    generation          int         not null default 1,
    build               int,
    slot                smallint    not null default 0 check (slot in (0, 1)),
    stream              text        collate "C" not null,
    effects_incarnation int,
    effects_mark        bigint,
    paused              boolean     not null default false,
    created_at          timestamptz not null default clock_timestamp(),
    constraint consumers_effects_check check ((effects_incarnation is null) = (effects_mark is null))
);
comment on table {schema}.consumers is 'One control row per registered projection or reactor.';
comment on column {schema}.consumers.shape is 'Fingerprint of fields, key, table, options and handled types: a change needs a migration or a rebuild.';
comment on column {schema}.consumers.code is 'Fingerprint of the handlers: a new one is adopted at start.';
comment on column {schema}.consumers.epoch is 'Rises at every takeover; a batch that reads another epoch than its own rolls back.';
comment on column {schema}.consumers.build is 'The open rebuild; while set, batches mark the aggregates they move as dirty.';
comment on column {schema}.consumers.slot is 'Where batches write dirty marks; the builder empties the other slot.';
comment on column {schema}.consumers.effects_mark is 'Stream sequence from which intents are real; below it they are counted and dropped.';

create table {schema}.streams (
    number      int         generated always as identity primary key,
    name        text        collate "C" not null,
    incarnation int         not null,
    created     timestamptz not null,
    highest_seq bigint      not null default 0,
    unique (name, incarnation)
);
comment on table {schema}.streams is 'One row per incarnation of a stream: a new one when a stream proves to be another under the same name.';
comment on column {schema}.streams.created is 'When the broker says the stream was created: one sign by which another incarnation is known.';

-- Times are the database's alone: two processes never compare their clocks.
create table {schema}.leases (
    name       text        collate "C" primary key,
    owner      text        collate "C" not null,
    epoch      bigint      not null,
    expires_at timestamptz not null
) with (fillfactor = 50);
comment on table {schema}.leases is 'Who may do a thing that one process at a time may do; a row outlives its lease so that the epoch only rises.';

create table {schema}.audit (
    number bigint      generated always as identity primary key,
    at     timestamptz not null default clock_timestamp(),
    who    text        not null,
    verb   text        collate "C" not null,
    object text        collate "C" not null,
    reason text        not null,
    detail jsonb       not null default '{}'
);
create index audit_object_idx on {schema}.audit (object, number);
comment on table {schema}.audit is 'Every act of an operator: append only, never purged.';
