-- How fast a build has gone, so that its page shows it over time: figures that are some seconds apart, those of the last hour.

alter table {schema}.build_progress
    add column rates real[] not null default '{}',
    add column measured timestamptz,
    add column measured_done bigint not null default 0;
comment on column {schema}.build_progress.rates is 'how many were done a second in each stretch of some seconds, the newest last; those of an hour';
comment on column {schema}.build_progress.measured is 'when the last of rates was measured, or what it does was begun';
comment on column {schema}.build_progress.measured_done is 'how many were done then';
