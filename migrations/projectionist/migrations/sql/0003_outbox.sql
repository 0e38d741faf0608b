-- Side effects: as batches stage them, as intents, as what is open of them; what was tried and what came of it; and what all
-- relays share about a destination.

-- A row a batch and not five index entries an intent: a relay unpacks it, outside the hot path.
create table {schema}.staged_intents (
    seq bigint generated always as identity primary key,
    consumer integer not null,
    incarnation integer not null,
    intents integer not null,
    encoded bytea not null,
    created timestamptz not null default clock_timestamp(),
    refused text
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 10000
);
-- To compress would cost more than to write.
alter table {schema}.staged_intents alter column encoded set storage external;
comment on table {schema}.staged_intents is
    'One row per batch that asked for side effects, until they stand in intents and outbox.';
comment on column {schema}.staged_intents.intents is 'how many they are';
comment on column {schema}.staged_intents.encoded is
    'JSON: for each column of intents its values, in the order they were asked for';
comment on column {schema}.staged_intents.refused is
    'why it could not be opened; the next relay that starts tries it again';

-- An intent is written twice: when it is unpacked, and when it is settled. All between happens in `outbox`.
create table {schema}.intents (
    seq bigint generated always as identity primary key,
    key text collate "C" not null unique,
    consumer integer not null,
    source text collate "C" not null,
    id text collate "C" not null,
    aggregate text collate "C",
    version bigint,
    slot text not null,
    class text not null,
    provider text not null,
    destination text not null,
    ordering text collate "C",
    on_dead text not null check (on_dead in ('pass', 'block')),
    body bytea not null,
    hash bytea not null,
    traceparent text,
    tracestate text,
    state text not null default 'open' check (state in ('open', 'sent', 'discarded')),
    created timestamptz not null default clock_timestamp(),
    attempt integer,
    first_started timestamptz,
    wire_hash bytea,
    status text,
    provider_id text,
    excerpt text,
    error text,
    settled timestamptz,
    memory_s double precision
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
comment on column {schema}.intents.state is 'open: it stands in the outbox, where its state is';
comment on column {schema}.intents.attempt is 'the attempt that settled it; what follows is from its reply';
comment on column {schema}.intents.memory_s is
    'how long the provider remembers the key, from first_started on: the row is needed as long';
create index intents_event on {schema}.intents (consumer, source, id);

-- Narrow and short: a lease, a start and an outcome rewrite a few dozen bytes, within the page, and touch no index.
create table {schema}.outbox (
    seq bigint primary key,
    provider text collate "C" not null,
    destination text collate "C" not null,
    lane text collate "C" not null,
    place bigint not null,
    open boolean not null default true,
    state text not null default 'ready' check (state in ('ready', 'leased', 'started', 'unknown', 'reconcile', 'dead', 'held')),
    token uuid,
    lease_until timestamptz,
    due timestamptz,
    attempt integer not null default 0,
    spent integer not null default 0,
    first_started timestamptz,
    started timestamptz,
    lookup_hint text,
    wire bytea,
    wire_hash bytea,
    error text,
    epoch integer,
    doubted boolean not null default false,
    constraint outbox_open_check check (open or (state = 'dead'))
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 10000
);
comment on table {schema}.outbox is 'One row per intent that is not settled, or dead until somebody looks at it.';
comment on column {schema}.outbox.lane is
    'the ordering key, or the intent''s own key: one of a lane is in flight, the first';
comment on column {schema}.outbox.place is 'its number, unless it was passed while dead: then the end of its lane';
comment on column {schema}.outbox.open is 'false: dead and passed, those behind it go on';
comment on column {schema}.outbox.attempt is
    'the number of the last attempt: it only rises, and a reply settles its own alone';
comment on column {schema}.outbox.spent is 'attempts that count against the limit';
comment on column {schema}.outbox.first_started is
    'when bytes may have left for the first time: the provider''s memory counts from here';
comment on column {schema}.outbox.lookup_hint is 'what the provider noted before the first attempt, for a later lookup';
comment on column {schema}.outbox.wire is
    'the bytes every attempt sends, made at the first one; null if they are the body';
comment on column {schema}.outbox.epoch is 'of the home in which it was last leased: there that doubt is known';
comment on column {schema}.outbox.doubted is 'what came of an attempt before is unknown: it may have been done';
-- The claim jumps along this index from lane to lane, so that what waits behind a head is not read.
create index outbox_lane on {schema}.outbox (provider, lane, place) where open;

create table {schema}.attempts (
    intent bigint not null,
    attempt integer not null,
    relay text not null,
    started timestamptz not null,
    took_s double precision,
    outcome text not null check (outcome in ('sent', 'retry', 'refused', 'in_flight', 'mismatch', 'unknown', 'sticky', 'not_sent')),
    status text,
    provider_id text,
    reason text,
    excerpt text,
    replayed boolean not null default false,
    primary key (intent, attempt)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);
comment on table {schema}.attempts is
    'One row per attempt that has ended; none for an intent that was sent at its first one, whose own row says all.';

create table {schema}.circuits (
    provider text collate "C" not null,
    destination text collate "C" not null,
    state text not null default 'closed' check (state in ('closed', 'open', 'half_open')),
    epoch bigint not null default 0,
    failures integer not null default 0,
    openings integer not null default 0,
    until timestamptz not null default '-infinity',
    held text check (held in ('gone', 'unset', 'missing')),
    changed timestamptz not null default clock_timestamp(),
    primary key (provider, destination)
) with (fillfactor = 70);
comment on table {schema}.circuits is
    'The circuit of each destination that has failed, shared by all relays; no row is a closed one.';
comment on column {schema}.circuits.held is
    'why nothing is sent there until somebody acts: gone (it said so), unset or missing (no such settings); destination * is all';

create table {schema}.buckets (
    provider text collate "C" not null,
    destination text collate "C" not null,
    tokens double precision not null,
    granted integer not null,
    refilled timestamptz not null,
    primary key (provider, destination)
) with (fillfactor = 50);
comment on table {schema}.buckets is 'What is left of each destination''s rate, shared by all relays.';

-- Without a relay for a provider, nobody carries out what is asked of it.
create table {schema}.relays (
    instance uuid primary key,
    host text not null,
    pid integer not null,
    providers text[] not null,
    started timestamptz not null default clock_timestamp(),
    beat timestamptz not null default clock_timestamp()
) with (fillfactor = 50);
comment on table {schema}.relays is
    'One row a relay that works: it beats every few seconds, and removes its row when it stops.';

-- A database that took another one's place may lack attempts that were made.
create table {schema}.relay_owner (
    one boolean default true primary key check (one),
    token uuid not null,
    epoch integer not null default 1,
    doubted bigint not null default 0,
    since timestamptz not null default clock_timestamp()
);
comment on table {schema}.relay_owner is 'The token of the owner for which relays last sent, one row.';
comment on column {schema}.relay_owner.epoch is 'how many homes there were';
comment on column {schema}.relay_owner.doubted is
    'the last intent from before it: each up to here may have been sent, whatever its row says';
