-- The relay's side of intents: who holds one and until when, what was tried, what came of it; and what all relays
-- share about a destination: its circuit and its rate.

-- A row is written four times in its life (wish, lease, start, outcome). None of the columns that lease and start
-- change is in an index, so that those two are done within the page: half of each page is left for them.
alter table {schema}.intents
    add column open boolean not null default true,
    add column place bigint,
    add column token uuid,
    add column lease_until timestamptz,
    add column attempt integer not null default 0,
    add column spent integer not null default 0,
    add column first_started timestamptz,
    add column started timestamptz,
    add column due timestamptz,
    add column mark text,
    add column wire bytea,
    add column wire_hash bytea,
    add column status text,
    add column provider_id text,
    add column excerpt text,
    add column error text,
    add column settled timestamptz,
    add column memory_s double precision,
    add constraint intents_open_check check
        (open = (state not in ('sent', 'discarded') and not (state = 'dead' and on_dead = 'pass'))),
    set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
         autovacuum_analyze_scale_factor = 0.02);
comment on column {schema}.intents.open is 'not settled: it is sent some day, or holds its lane until somebody decides';
comment on column {schema}.intents.place is 'its place in its lane, if not its number: a dead one that was passed goes to the end';
comment on column {schema}.intents.attempt is 'the number of the last attempt: it only rises, and a reply settles its own attempt alone';
comment on column {schema}.intents.spent is 'attempts that count against the provider''s limit';
comment on column {schema}.intents.first_started is 'when bytes may have left for the first time: the provider''s memory counts from here';
comment on column {schema}.intents.mark is 'what the provider noted before the first attempt, for a later lookup';
comment on column {schema}.intents.wire is 'the bytes that every attempt sends; null if they are the body';
comment on column {schema}.intents.memory_s is 'how long the provider that settled it remembers the key: the row is needed as long';

-- The claim jumps along this index from lane to lane: neither what is settled nor what waits behind a head is read.
create index intents_lane on {schema}.intents (provider, (coalesce(ordering, key)), (coalesce(place, seq))) where open;

-- For whoever looks after what went wrong, among millions that went well.
create index intents_unwell on {schema}.intents (provider, seq) where not open and error is not null;

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
