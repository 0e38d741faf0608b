-- The positions of each build are in a table of its own, made like this one, which stays empty: no partition, since those
-- are made and dropped under a lock on all of them.

do $do$
declare
    one text;
begin
    for one in select inhrelid::regclass::text from pg_inherits where inhparent = $name${schema}.build_positions$name$::regclass
    loop
        execute format('alter table %s detach partition %s', $name${schema}.build_positions$name$, one);
    end loop;
end
$do$;
drop table {schema}.build_positions;
create table {schema}.build_positions (
    build integer not null,
    aggregate text collate "C" not null,
    cap bigint not null,
    version bigint not null,
    primary key (build, aggregate)
);
comment on table {schema}.build_positions is 'empty: where a generation that is not live stands is in build_positions_N, made like this, N being its build';
comment on column {schema}.build_positions.cap is 'where the live generation stood when the build was opened';
