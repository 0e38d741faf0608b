-- The relay's side of intents: which are open, who holds one and until when, what was tried and what came of it; and
-- what all relays share about a destination: its circuit and its rate.

-- An intent is written twice: when it is wished, and when it is settled. All between happens in `outbox`.
alter table {schema}.intents
    drop constraint intents_state_check,
    alter column state set default 'open',
    add constraint intents_state_check check (state in ('open', 'sent', 'discarded')),
    add column attempt integer,
    add column first_started timestamptz,
    add column wire_hash bytea,
    add column status text,
    add column provider_id text,
    add column excerpt text,
    add column error text,
    add column settled timestamptz,
    add column memory_s double precision,
    set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
comment on column {schema}.intents.state is 'open: it stands in the outbox, where its state is';
comment on column {schema}.intents.attempt is 'the attempt that settled it; what follows is from its reply';
comment on column {schema}.intents.memory_s is
    'how long the provider remembers the key, from first_started on: the row is needed as long';

-- Narrow and short: a lease, a start and an outcome rewrite a few dozen bytes, within the page, and touch no index.
create table {schema}.outbox (
    seq bigint primary key,
    provider text collate "C" not null,
    destination text collate "C" not null,
    lane text collate "C" not null,
    place bigint not null,
    open boolean not null default true,
    state text not null default 'ready' check
        (state in ('ready', 'leased', 'started', 'unknown', 'reconcile', 'dead', 'held')),
    token uuid,
    lease_until timestamptz,
    due timestamptz,
    attempt integer not null default 0,
    spent integer not null default 0,
    first_started timestamptz,
    started timestamptz,
    mark text,
    wire bytea,
    wire_hash bytea,
    error text,
    constraint outbox_open_check check (open or state = 'dead')
) with (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);
comment on table {schema}.outbox is 'One row per intent that is not settled, or dead until somebody looks at it.';
comment on column {schema}.outbox.lane is 'the ordering key, or the intent''s own key: one of a lane is in flight, the first';
comment on column {schema}.outbox.place is 'its number, unless it was passed while dead: then the end of its lane';
comment on column {schema}.outbox.open is 'false: dead and passed, those behind it go on';
comment on column {schema}.outbox.attempt is 'the number of the last attempt: it only rises, and a reply settles its own alone';
comment on column {schema}.outbox.spent is 'attempts that count against the limit';
comment on column {schema}.outbox.first_started is 'when bytes may have left for the first time: the provider''s memory counts from here';
comment on column {schema}.outbox.mark is 'what the provider noted before the first attempt, for a later lookup';
comment on column {schema}.outbox.wire is 'the bytes every attempt sends, made at the first one; null if they are the body';
-- The claim jumps along this index from lane to lane, so that what waits behind a head is not read.
create index outbox_lane on {schema}.outbox (provider, lane, place) where open;

insert into {schema}.outbox (seq, provider, destination, lane, place)
select seq, provider, destination, coalesce(ordering, key), seq from {schema}.intents;

create table {schema}.attempts (
    intent bigint not null,
    attempt integer not null,
    relay text not null,
    started timestamptz not null,
    took_s double precision,
    outcome text not null check
        (outcome in ('sent', 'retry', 'refused', 'in_flight', 'mismatch', 'unknown', 'sticky', 'not_sent')),
    status text,
    provider_id text,
    reason text,
    excerpt text,
    replayed boolean not null default false,
    primary key (intent, attempt)
);
comment on table {schema}.attempts is
    'One row per attempt that has ended; none for an intent that was sent at its first one, whose own row says all.';

create table {schema}.breakers (
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
comment on table {schema}.breakers is 'The circuit of each destination that has failed, shared by all relays; no row is a closed one.';
comment on column {schema}.breakers.held is
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
