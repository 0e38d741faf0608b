-- Rebuilds: one row a build, the marks live batches leave for it, and where the shadow generation stands.

create table {schema}.builds (
    number integer generated always as identity primary key,
    consumer integer not null,
    kind text not null check (kind in ('rebuild', 'rollback')),
    generation integer not null,
    phase text not null check (phase in ('open', 'bulk', 'catch_up', 'done', 'aborted')),
    epoch bigint not null,
    owner text not null,
    revision integer not null,
    shape bytea not null,
    code bytea not null,
    base bytea not null,
    incarnation integer not null,
    bulk_limit bigint not null default 0,
    buckets integer not null default 1,
    finished integer[] not null default '{}',
    checkpoint bigint not null default 0,
    partial boolean not null default false,
    positions integer,
    settled xid8,
    settled_at timestamptz,
    started timestamptz not null default clock_timestamp(),
    touched timestamptz not null default clock_timestamp(),
    ended timestamptz
) with (fillfactor = 50);
comment on column {schema}.builds.epoch is 'of the lease of whoever builds: a flush under an older one is refused';
comment on column {schema}.builds.base is 'the code live ran when the build was opened: no swap over newer code';
comment on column {schema}.builds.bulk_limit is
    'the bulk reads the stream up to here: everything below was settled by the live generation';
comment on column {schema}.builds.finished is 'buckets of row keys whose rows are in the shadow';
comment on column {schema}.builds.checkpoint is 'of a SqlProjection: up to which stream sequence its handlers have run';
comment on column {schema}.builds.positions is
    'under which build the positions of its generation stand; null: under its own number';
comment on column {schema}.builds.settled is
    'the transaction after which the shadow held its rows: older snapshots do not see them';
comment on column {schema}.builds.settled_at is 'a moment after the commit of that transaction';
create unique index builds_open on {schema}.builds (consumer) where ended is null;

-- Any process can tell how far a build has come, and what builds may be a command.
create table {schema}.build_progress (
    build integer primary key,
    doing text not null,
    done bigint not null,
    expected bigint not null,
    per_s double precision not null,
    told timestamptz not null default clock_timestamp()
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
comment on table {schema}.build_progress is
    'What the builder of a build does, written every few seconds; apart from builds, whose row its transactions hold.';

-- Which aggregates moved while a build is open; without order, which stream sequences were applied.
create table {schema}.dirty_marks (
    consumer integer not null,
    slot smallint not null,
    mark text collate "C" not null,
    primary key (consumer, slot, mark)
);

-- The positions of each build are in a table of its own, made like this one, which stays empty: no partition, since those
-- are made and dropped under a lock on all of them.
create table {schema}.build_positions (
    build integer not null,
    aggregate text collate "C" not null,
    cap bigint not null,
    version bigint not null,
    primary key (build, aggregate)
);
comment on table {schema}.build_positions is
    'empty: where a generation that is not live stands is in build_positions_N, made like this, N being its build';
comment on column {schema}.build_positions.cap is 'where the live generation stood when the build was opened';

-- Stream sequences at or below the bulk limit that the live generation has not applied; where versions do not say it.
create table {schema}.build_excluded (
    build integer not null,
    seq bigint not null,
    primary key (build, seq)
);

-- The plan of one round of catching up. Lost with a crash of the server, and made anew by the next round.
create unlogged table {schema}.build_steps (
    build integer not null,
    n bigint not null,
    aggregate text collate "C",
    version bigint,
    seq bigint,
    primary key (build, n)
);
