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
    floor bigint not null default 0,
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
create unique index builds_open on {schema}.builds (consumer) where ended is null;
comment on column {schema}.builds.epoch is 'of the lease of whoever builds: a flush under an older one is refused';
comment on column {schema}.builds.base is 'the code live ran when the build was opened: no swap over newer code';
comment on column {schema}.builds.floor is 'the bulk reads the stream up to here: everything below was settled by the live generation';
comment on column {schema}.builds.finished is 'buckets of row keys whose rows are in the shadow';
comment on column {schema}.builds.checkpoint is 'of a SqlProjection: up to which stream sequence its handlers have run';
comment on column {schema}.builds.positions is 'under which build the positions of its generation stand; null: under its own number';
comment on column {schema}.builds.settled is 'the transaction after which the shadow held its rows: older snapshots do not see them';
comment on column {schema}.builds.settled_at is 'a moment after the commit of that transaction';

-- Which aggregates moved while a build is open; without order, which stream sequences were applied.
create table {schema}.dirty (
    consumer integer not null,
    slot smallint not null,
    mark text collate "C" not null,
    primary key (consumer, slot, mark)
);

-- Where a generation that is not live stands, aggregate by aggregate. A partition a build: dropping it costs nothing.
create table {schema}.build_positions (
    build integer not null,
    aggregate text collate "C" not null,
    cap bigint not null,
    version bigint not null,
    primary key (build, aggregate)
) partition by list (build);
comment on column {schema}.build_positions.cap is 'where the live generation stood when the build was opened';

-- Stream sequences at or below the floor that the live generation has not applied; where versions do not say it.
create table {schema}.build_apart (
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

alter table {schema}.generations
    add column revision integer not null default 1,
    add column build integer,
    add column kept_until timestamptz;
comment on column {schema}.generations.build is 'of a kept generation: the build whose positions say where it stands';
