-- What is known of every event: applied, parked, in quarantine; where each aggregate stands; what was found and decided.

-- Rows come in masses and leave in masses: a fifth of ten million dead rows would be looked at far too late. Rows of
-- inbox, duplicates, attempts and audit are hardly ever written twice, so their pages may be full.
create table {schema}.inbox (
    consumer integer not null,
    source text collate "C" not null,
    id text collate "C" not null,
    state text not null check (state in ('applied', 'ignored', 'stale', 'parked', 'quarantined', 'skipped', 'discarded')),
    verdict text not null default 'next' check (verdict in ('next', 'stale', 'gap', 'blocked', 'reused', 'late')),
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
    idle boolean not null default false,
    primary key (consumer, source, id)
) with (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 50000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);
comment on column {schema}.inbox.idle is 'applied without effect: the condition (when=) of its handler did not hold';
create index inbox_held on {schema}.inbox (consumer, received) where state in ('parked', 'quarantined');
create index inbox_version on {schema}.inbox (consumer, aggregate, version);

create table {schema}.duplicates (
    consumer integer not null,
    incarnation integer not null,
    seq bigint not null,
    source text collate "C" not null,
    id text collate "C" not null,
    received timestamptz not null default clock_timestamp(),
    primary key (consumer, incarnation, seq)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);
create index duplicates_identity on {schema}.duplicates (consumer, source, id);

-- Written again and again, in place where the page has room.
create table {schema}.positions (
    consumer integer not null,
    aggregate text collate "C" not null,
    version bigint not null default 0,
    head text not null default 'clear' check (head in ('clear', 'gap', 'failed', 'waiting', 'draining')),
    finding text check (finding in ('in_flight', 'purged', 'filtered', 'lost', 'implausible')),
    parked integer not null default 0,
    due timestamptz,
    seq bigint,
    owner integer,
    primary key (consumer, aggregate)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
comment on column {schema}.positions.owner is 'the runner that has claimed what is stored for this aggregate';
create index positions_due on {schema}.positions (consumer, due) where due is not null;
create index positions_held on {schema}.positions (consumer, head) where head <> 'clear';
create index positions_owned on {schema}.positions (consumer, owner) where owner is not null;

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
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
comment on column {schema}.parked.data is 'null: a reference, the stream holds the bytes at (incarnation, seq)';
comment on column {schema}.parked.code is 'fingerprint of the code that failed on it: newer code tries again';
comment on column {schema}.parked.discarded is 'decided against while it waited: stepped over when its turn comes';
create index parked_due on {schema}.parked (consumer, due) where due is not null;
create unique index parked_version on {schema}.parked (consumer, aggregate, version) where ordered;

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
comment on column {schema}.quarantine.due is
    'somebody, or new code, wants it read again: no one else asked since if it is the same';
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
    settled text,
    unique (consumer, kind, incarnation, seq)
);
comment on column {schema}.incidents.settled is
    'by which event or act it was closed without somebody having to close it; null: open, or closed by a person';
create index incidents_open on {schema}.incidents (consumer) where closed is null;

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

create table {schema}.counters (
    consumer integer not null,
    runner integer not null,
    hour timestamptz not null,
    type text collate "C" not null,
    outcome text collate "C" not null,
    n bigint not null,
    primary key (consumer, runner, hour, type, outcome)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Which messages of a stream batches have settled since the last floor: an ack that was not ours is told by it.
create table {schema}.settled_batches (
    consumer integer not null,
    incarnation integer not null,
    lowest bigint not null,
    highest bigint not null,
    seqs bigint[]
) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
alter table {schema}.settled_batches alter column seqs set storage external;
comment on table {schema}.settled_batches is
    'A row a batch, written in its transaction, until the floor has passed it. Without an index: it is short, and read whole.';
comment on column {schema}.settled_batches.seqs is 'null: all from the lowest to the highest.';

create table {schema}.floors (
    consumer integer not null,
    durable text collate "C" not null,
    incarnation integer not null,
    floor bigint not null default 0,
    floor_hash bytea,
    floor_stored text,
    top bigint not null default 0,
    top_hash bytea,
    top_stored text,
    seen bigint not null default 0,
    deliveries bigint not null default 0,
    durable_created timestamptz,
    timeline integer,
    written timestamptz not null default clock_timestamp(),
    purged bigint not null default 0,
    purged_from bigint,
    acked bigint,
    primary key (consumer, durable)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
comment on table {schema}.floors is
    'Written every few seconds in a transaction of its own: whatever lies at or below a floor was committed before it.';
comment on column {schema}.floors.floor is 'The broker''s ack floor: up to here every event of the stream is settled.';
comment on column {schema}.floors.floor_hash is
    'Of the content of the message there, which shows that a stream is another one.';
comment on column {schema}.floors.top is 'The last message of the stream when this was written.';
comment on column {schema}.floors.seen is
    'Up to here nothing of this consumer was outstanding, whoever the messages are for.';
comment on column {schema}.floors.deliveries is
    'The broker''s count; one that is lower later was reset by somebody else.';
comment on column {schema}.floors.timeline is 'Of PostgreSQL: another one means a failover or a restore.';
comment on column {schema}.floors.purged is
    'Up to this stream sequence rows of settled events may have been removed. Never above the floor.';
comment on column {schema}.floors.purged_from is
    'The lowest stream sequence of a removed row; 0: of an earlier stream. What a rebuild would lack is judged by it.';
comment on column {schema}.floors.acked is
    'How many deliveries the broker had counted up to the floor; null: not known, so the stream is asked what lies above it.';

-- What a process was about to try.
create table {schema}.crash_marks (
    consumer integer not null,
    source text collate "C" not null,
    id text collate "C" not null,
    marks integer not null default 1,
    runner integer not null,
    at timestamptz not null default clock_timestamp(),
    primary key (consumer, source, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table {schema}.crash_marks is
    'Events that were about to be tried after a process had ended uncleanly. A mark that stays is a try without an end.';

create table {schema}.consumer_breakers (
    consumer integer primary key,
    state text not null check (state in ('closed', 'open', 'half_open')),
    epoch integer not null,
    failures integer not null,
    openings integer not null,
    until timestamptz not null,
    runner integer,
    reason text not null,
    changed timestamptz not null default clock_timestamp()
) with (fillfactor = 50);
comment on table {schema}.consumer_breakers is
    'Consumers on which many keys failed at once: nothing is fetched while open, one runner tries while half open.';

create table {schema}.archive (
    number bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    kind text collate "C" not null,
    consumer integer,
    content jsonb not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);
comment on table {schema}.archive is 'Rows as they were when retention removed them, until their own time is over.';
create index archive_aggregate on {schema}.archive (((content ->> 'aggregate'))) where kind = 'inbox';
-- The archive is looked into by whoever asks for an event.
create index archive_event on {schema}.archive (((content ->> 'id'))) where kind in ('inbox', 'intents');
