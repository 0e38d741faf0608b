-- Which messages of a stream batches have settled since the last floor: an ack that was not ours is told by it.

create table {schema}.settled (
    consumer    integer not null,
    incarnation integer not null,
    lowest      bigint  not null,
    highest     bigint  not null,
    seqs        bigint[]
) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
alter table {schema}.settled alter column seqs set storage external;
comment on table {schema}.settled is
    'A row a batch, written in its transaction, until the floor has passed it. Without an index: it is short, and read whole.';
comment on column {schema}.settled.seqs is 'null: all from the lowest to the highest.';

alter table {schema}.floors add column acked bigint;
comment on column {schema}.floors.acked is
    'How many deliveries the broker had counted up to the floor; null: not known, so the stream is asked what lies above it.';
