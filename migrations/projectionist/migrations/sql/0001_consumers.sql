-- The ledger of migrations; who consumes what, in which generation; who may do what, and who did it. Every key that is
-- compared or sorted is text in "C" order, so that the order a client sorts in is the order the database locks in.

create table {schema}.migrations (
    number integer primary key,
    name text collate "C" not null,
    checksum bytea not null,
    release text not null,
    applied_at timestamptz not null default clock_timestamp()
);
comment on table {schema}.migrations is
    'One row per applied migration; the checksum shows when a released file was edited.';

-- The control row: read by every batch after it holds the consumer's barrier, changed by nobody without the exclusive one.
create table {schema}.consumers (
    number integer generated always as identity primary key,
    name text collate "C" not null unique,
    kind text collate "C" not null,
    revision integer not null default 1,
    shape bytea not null,
    code bytea not null,
    epoch bigint not null default 1,
    generation integer not null default 1,
    build integer,
    slot smallint not null default 0 check (slot in (0, 1)),
    stream text collate "C" not null,
    effects_incarnation integer,
    effects_mark bigint,
    paused boolean not null default false,
    created_at timestamptz not null default clock_timestamp(),
    key_name text collate "C" not null,
    sequence text not null default 'contiguous' check (sequence in ('contiguous', 'monotonic', 'unordered')),
    baseline text not null default 'first',
    incarnation integer not null default 1,
    subjects text not null default '',
    durable text not null default '',
    own_type text collate "C",
    repeats boolean not null default false,
    own_since text,
    constraint consumers_effects_check check ((effects_incarnation is null) = (effects_mark is null))
);
comment on table {schema}.consumers is 'One control row per registered projection or reactor.';
comment on column {schema}.consumers.shape is
    'Fingerprint of fields, key, table, options and handled types: a change needs a migration or a rebuild.';
comment on column {schema}.consumers.code is 'Fingerprint of the handlers: a new one is adopted at start.';
comment on column {schema}.consumers.epoch is
    'Rises at every takeover; a batch that reads another epoch than its own rolls back.';
comment on column {schema}.consumers.build is
    'The open rebuild; while set, batches mark the aggregates they move as dirty.';
comment on column {schema}.consumers.slot is 'Where batches write dirty marks; the builder empties the other slot.';
comment on column {schema}.consumers.effects_mark is
    'Stream sequence from which intents are real; below it they are counted and dropped.';
comment on column {schema}.consumers.key_name is
    'the name under which the consumer was first registered; intent keys are made of it, so that a rename keeps them';
comment on column {schema}.consumers.own_type is
    'the one type of aggregate whose ids are keys of rows: with a second type, two aggregates would share a row';
comment on column {schema}.consumers.repeats is
    'it was reset after decisions were recorded: live batches obey those, as a rebuild does';
comment on column {schema}.consumers.own_since is 'the event that decided own_type, as errors name it';

-- Their names are not given again: intent keys were made of them, and providers remember keys.
create table {schema}.retired_consumers (
    name text collate "C" primary key,
    consumer integer not null,
    at timestamptz not null default clock_timestamp(),
    who text not null,
    reason text not null
);
comment on table {schema}.retired_consumers is
    'Names that consumers bore until they were retired; the names of their read models stay theirs in own_names.';

create table {schema}.code_fingerprints (
    consumer integer not null,
    code bytea not null,
    adopted timestamptz not null default clock_timestamp(),
    primary key (consumer, code)
);
comment on table {schema}.code_fingerprints is
    'Every fingerprint of handlers that a consumer has run with: one of the past does not start by itself.';

create table {schema}.names (
    consumer integer not null,
    kind text not null check (kind in ('slot', 'event')),
    name text collate "C" not null,
    owner text not null,
    first_seen timestamptz not null default clock_timestamp(),
    primary key (consumer, kind, name)
);

-- The names of read models are one consumer's, by the database's own word, also when its class is gone.
create table {schema}.own_names (
    name text collate "C" primary key,
    consumer integer not null
);
comment on table {schema}.own_names is
    'Public names, schema.table; the tables of all their generations have names that are derived from them alone.';

create table {schema}.generations (
    consumer integer not null,
    generation integer not null,
    state text not null check (state in ('live', 'building', 'kept', 'dropped')),
    tables jsonb not null,
    shape bytea not null,
    code bytea not null,
    created timestamptz not null default clock_timestamp(),
    revision integer not null default 1,
    build integer,
    kept_until timestamptz,
    primary key (consumer, generation)
);
comment on column {schema}.generations.build is 'of a kept generation: the build whose positions say where it stands';
create unique index generations_live on {schema}.generations (consumer) where state = 'live';

create table {schema}.streams (
    number integer generated always as identity primary key,
    name text collate "C" not null,
    incarnation integer not null,
    created timestamptz not null,
    highest_seq bigint not null default 0,
    unique (name, incarnation)
);
comment on table {schema}.streams is
    'One row per incarnation of a stream: a new one when a stream proves to be another under the same name.';
comment on column {schema}.streams.created is
    'When the broker says the stream was created: one sign by which another incarnation is known.';

-- Which database is the real one: a copy of it has this row too, and finds itself elsewhere.
create table {schema}.owner (
    one boolean default true primary key check (one),
    system text,
    timeline integer not null,
    database oid not null,
    name text not null,
    home oid not null,
    token uuid not null default gen_random_uuid(),
    before uuid,
    since timestamptz not null default clock_timestamp()
);
comment on table {schema}.owner is
    'Where this schema was at home when somebody last ran on it. Durables bear its token.';
comment on column {schema}.owner.system is 'Identifier of the cluster; null where this role may not read it.';
comment on column {schema}.owner.home is 'The table of consumers: a dump that is restored gives it another number.';
comment on column {schema}.owner.before is
    'The token before the last failover, restore or adoption: durables that bear it are ours to take over.';

-- Times are the database's alone: two processes never compare their clocks.
create table {schema}.leases (
    name text collate "C" primary key,
    owner text collate "C" not null,
    epoch bigint not null,
    expires_at timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
comment on table {schema}.leases is
    'Who may do a thing that one process at a time may do; a row outlives its lease so that the epoch only rises.';

create table {schema}.runners (
    number integer generated always as identity primary key,
    consumer integer not null,
    instance uuid not null,
    host text not null,
    pid integer not null,
    code bytea,
    state text not null default 'starting',
    started timestamptz not null default clock_timestamp(),
    beat timestamptz not null default clock_timestamp(),
    stopped timestamptz,
    batches bigint not null default 0,
    p50_ms double precision,
    p99_ms double precision,
    lag bigint,
    unacked bigint,
    leased_until timestamptz,
    backends integer[] not null default '{}',
    headers jsonb
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
comment on column {schema}.runners.leased_until is 'the lease behind all claims of this runner';
comment on column {schema}.runners.backends is
    'The sessions of its batches, for whoever they keep waiting when it is dead or frozen.';
comment on column {schema}.runners.headers is 'the header, in lower case, that each part of the envelope is read from';
create index runners_consumer on {schema}.runners (consumer) where stopped is null;

-- What a process cannot do at the moment: a consumer that never joined has no row among the runners.
create table {schema}.setbacks (
    instance uuid not null,
    consumer text collate "C" not null,
    what text collate "C" not null,
    state text not null check (state in ('ended', 'retried', 'waits', 'failing')),
    host text not null,
    pid integer not null,
    reason text not null,
    remedy text not null,
    since timestamptz not null default clock_timestamp(),
    until timestamptz not null,
    primary key (instance, consumer, what)
);
comment on table {schema}.setbacks is
    'What each process cannot do, written when that changes; a row goes when it is well again, and is over at `until`.';
comment on column {schema}.setbacks.consumer is
    'its name, since it may not be registered; empty where all of the process is meant';
comment on column {schema}.setbacks.what is 'the chore that fails; empty where the consumer itself does not run';
comment on column {schema}.setbacks.until is 'a process that lives has put this off before then';

create table {schema}.audit (
    number bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    who text not null,
    action text collate "C" not null,
    object text collate "C" not null,
    reason text not null,
    detail jsonb not null default '{}'
);
comment on table {schema}.audit is 'Every act of an operator: append only, never purged.';
create index audit_at_idx on {schema}.audit (at);
create index audit_object_idx on {schema}.audit (object, number);
