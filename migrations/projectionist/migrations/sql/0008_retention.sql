-- What has been settled long enough goes: where it may be archived first, how far the purge has come, and tables that
-- are looked after for rows that come once, rest, and leave in masses.

alter table {schema}.floors
    add column purged bigint not null default 0,
    add column purged_from bigint;
comment on column {schema}.floors.purged is
    'Up to this stream sequence rows of settled events may have been removed. Never above the floor.';
comment on column {schema}.floors.purged_from is
    'The lowest stream sequence of a removed row; 0: of an earlier stream. What a rebuild would lack is judged by it.';

create table {schema}.archive (
    number bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    kind text collate "C" not null,
    consumer integer,
    content jsonb not null
);
comment on table {schema}.archive is 'Rows as they were when retention removed them, until their own time is over.';

-- Rows come in masses and leave in masses: a fifth of ten million dead rows would be looked at far too late. Rows of
-- inbox, duplicates, attempts and audit are hardly ever written twice, so their pages may be full.
alter table {schema}.inbox set (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 50000,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05
);
alter table {schema}.duplicates set (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1
);
alter table {schema}.attempts set (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1
);
alter table {schema}.archive set (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1
);
-- Written again and again, in place where the page has room.
alter table {schema}.positions set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
alter table {schema}.parked set (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000
);
alter table {schema}.counters set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
alter table {schema}.runners set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
alter table {schema}.leases set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
alter table {schema}.floors set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
alter table {schema}.consumer_breakers set (fillfactor = 50);
alter table {schema}.tried set (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
