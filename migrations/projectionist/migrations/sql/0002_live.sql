-- The tables of live projections. Every key that is compared or sorted is text in "C" order, so that the order a
-- client sorts in is the order the database locks in.

alter table {schema}.consumers
    add column key_name text collate "C" not null,
    add column sequence text not null default 'contiguous' check (sequence in ('contiguous', 'monotonic', 'unordered')),
    add column baseline text not null default 'first',
    add column incarnation integer not null default 1,
    add column subjects text not null default '',
    add column durable text not null default '',
    add column own_type text collate "C";
comment on column {schema}.consumers.own_type is
    'the one type of aggregate whose ids are keys of rows: with a second type, two aggregates would share a row';
comment on column {schema}.consumers.key_name is
    'the name under which the consumer was first registered; intent keys are made of it, so that a rename keeps them';

create table {schema}.runners (
    number integer generated always as identity primary key,
    consumer integer not null,
    instance uuid not null,
    host text not null,
    pid integer not null,
    backend_pid integer,
    code bytea,
    state text not null default 'starting',
    started timestamptz not null default clock_timestamp(),
    beat timestamptz not null default clock_timestamp(),
    stopped timestamptz,
    batches bigint not null default 0,
    p50_ms double precision,
    p99_ms double precision,
    lag bigint,
    unacked bigint
) with (fillfactor = 70);
create index runners_consumer on {schema}.runners (consumer) where stopped is null;

create table {schema}.names (
    consumer integer not null,
    kind text not null check (kind in ('slot', 'event')),
    name text collate "C" not null,
    owner text not null,
    first_seen timestamptz not null default clock_timestamp(),
    primary key (consumer, kind, name)
);

create table {schema}.generations (
    consumer integer not null,
    generation integer not null,
    state text not null check (state in ('live', 'building', 'kept', 'dropped')),
    tables jsonb not null,
    shape bytea not null,
    code bytea not null,
    created timestamptz not null default clock_timestamp(),
    primary key (consumer, generation)
);
create unique index generations_live on {schema}.generations (consumer) where state = 'live';

create table {schema}.inbox (
    consumer integer not null,
    source text collate "C" not null,
    id text collate "C" not null,
    state text not null check
        (state in ('applied', 'ignored', 'stale', 'parked', 'quarantined', 'skipped', 'discarded')),
    verdict text not null default 'next' check
        (verdict in ('next', 'stale', 'gap', 'blocked', 'reused', 'late')),
    incarnation integer not null,
    seq bigint not null,
    subject text not null,
    type text not null,
    event_schema integer not null,
    aggregate text collate "C",
    version bigint,
    correlation text,
    causation text,
    traceparent text,
    tracestate text,
    hash bytea not null,
    batch bigint not null,
    received timestamptz not null,
    processed timestamptz not null default clock_timestamp(),
    data bytea,
    primary key (consumer, source, id)
);
create index inbox_version on {schema}.inbox (consumer, aggregate, version);
create index inbox_held on {schema}.inbox (consumer, received) where state in ('parked', 'quarantined');

create table {schema}.duplicates (
    consumer integer not null,
    incarnation integer not null,
    seq bigint not null,
    source text collate "C" not null,
    id text collate "C" not null,
    received timestamptz not null default clock_timestamp(),
    primary key (consumer, incarnation, seq)
);
create index duplicates_identity on {schema}.duplicates (consumer, source, id);

create table {schema}.positions (
    consumer integer not null,
    aggregate text collate "C" not null,
    version bigint not null default 0,
    head text not null default 'clear' check (head in ('clear', 'gap', 'failed', 'waiting', 'draining')),
    finding text check (finding in ('in_flight', 'purged', 'filtered', 'lost', 'implausible')),
    parked integer not null default 0,
    due timestamptz,
    seq bigint,
    primary key (consumer, aggregate)
) with (fillfactor = 80);
create index positions_due on {schema}.positions (consumer, due) where due is not null;
create index positions_held on {schema}.positions (consumer, head) where head <> 'clear';

create table {schema}.parked (
    consumer integer not null,
    source text collate "C" not null,
    id text collate "C" not null,
    cause text not null check (cause in ('gap', 'failed', 'blocked', 'stored')),
    aggregate text collate "C",
    version bigint,
    ordered boolean not null,
    incarnation integer not null,
    seq bigint not null,
    subject text not null,
    type text not null,
    event_schema integer not null,
    event_time text,
    correlation text,
    causation text,
    traceparent text,
    tracestate text,
    hash bytea not null,
    edited_hash bytea,
    data bytea,
    problem text,
    attempts integer not null default 0,
    budget integer,
    due timestamptz,
    error_class text,
    error text,
    stack text,
    code bytea,
    discarded boolean not null default false,
    first_failed timestamptz,
    last_failed timestamptz,
    parked_at timestamptz not null default clock_timestamp(),
    primary key (consumer, source, id)
);
comment on column {schema}.parked.data is 'null: a reference, the stream holds the bytes at (incarnation, seq)';
comment on column {schema}.parked.code is 'fingerprint of the code that failed on it: newer code tries again';
comment on column {schema}.parked.discarded is 'decided against while it waited: stepped over when its turn comes';
create unique index parked_version on {schema}.parked (consumer, aggregate, version) where ordered;
create index parked_due on {schema}.parked (consumer, due) where due is not null;

create table {schema}.quarantine (
    consumer integer not null,
    incarnation integer not null,
    seq bigint not null,
    reason text not null,
    detail text not null,
    state text not null default 'quarantined' check (state in ('quarantined', 'released', 'discarded')),
    subject text not null,
    source text,
    id text,
    aggregate text,
    version bigint,
    headers bytea,
    data bytea,
    size integer not null,
    hash bytea not null,
    edit bigint,
    attempts integer not null default 0,
    due timestamptz,
    code bytea,
    received timestamptz not null default clock_timestamp(),
    primary key (consumer, incarnation, seq)
);
comment on column {schema}.quarantine.hash is 'of the whole data alone; headers and data stay as they came';
comment on column {schema}.quarantine.edit is 'the decision that holds the headers and data to read instead';
comment on column {schema}.quarantine.due is 'somebody, or new code, wants it read again: no one else asked since if it is the same';
comment on column {schema}.quarantine.code is 'fingerprint of the code that could not read it: newer code tries again';
create index quarantine_due on {schema}.quarantine (consumer, due) where due is not null;
create index quarantine_held on {schema}.quarantine (consumer) where state = 'quarantined';

create table {schema}.incidents (
    number bigint generated always as identity primary key,
    consumer integer not null,
    kind text not null,
    incarnation integer not null,
    seq bigint not null,
    source text,
    id text,
    aggregate text,
    version bigint,
    detail text not null,
    opened timestamptz not null default clock_timestamp(),
    closed timestamptz,
    unique (consumer, kind, incarnation, seq)
);

create table {schema}.decisions (
    number bigint generated always as identity primary key,
    consumer integer not null,
    kind text not null check (kind in ('skip', 'discard', 'edit', 'accept_gap', 'winner', 'baseline')),
    aggregate text collate "C",
    version bigint,
    upto bigint,
    source text collate "C",
    id text collate "C",
    incarnation integer,
    seq bigint,
    headers bytea,
    data bytea,
    hash bytea,
    actor text not null,
    reason text not null,
    at timestamptz not null default clock_timestamp()
);
comment on column {schema}.decisions.seq is
    'with incarnation: about what stands in quarantine, and so about no version of an aggregate';
create index decisions_aggregate on {schema}.decisions (consumer, aggregate, version);
create index decisions_seq on {schema}.decisions (consumer, incarnation, seq) where seq is not null;

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
    state text not null default 'ready' check
        (state in ('ready', 'leased', 'started', 'unknown', 'sent', 'reconcile', 'dead', 'held', 'discarded')),
    created timestamptz not null default clock_timestamp()
);
create index intents_event on {schema}.intents (consumer, source, id);

create table {schema}.counters (
    consumer integer not null,
    runner integer not null,
    hour timestamptz not null,
    type text collate "C" not null,
    outcome text collate "C" not null,
    n bigint not null,
    primary key (consumer, runner, hour, type, outcome)
) with (fillfactor = 50);

create table {schema}.codes (
    consumer integer not null,
    code bytea not null,
    adopted timestamptz not null default clock_timestamp(),
    primary key (consumer, code)
);
comment on table {schema}.codes is 'Every fingerprint of handlers that a consumer has run with: one of the past does not start by itself.';
