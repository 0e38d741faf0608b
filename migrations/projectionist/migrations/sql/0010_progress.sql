-- How far an open rebuild has come, for whoever asks: any process can tell, and what builds may be a command.

create table {schema}.build_progress (
    build integer primary key,
    doing text not null,
    done bigint not null,
    expected bigint not null,
    per_s float8 not null,
    told timestamptz not null default clock_timestamp()
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
comment on table {schema}.build_progress is
    'What the builder of a build does, written every few seconds; apart from builds, whose row its transactions hold.';
