-- Which version an aggregate has reached whose events are recorded in the transactions of a producer.

create table {schema}.recorded_aggregates (
    stream text collate "C" not null,
    aggregate text collate "C" not null,
    version bigint not null check (version > 0),
    primary key (stream, aggregate)
) with (fillfactor = 70);
comment on table {schema}.recorded_aggregates is
    'One row per aggregate whose events were recorded through the outbox; whoever records one locks it until the commit.';
comment on column {schema}.recorded_aggregates.version is
    'of its newest event; set it once for an aggregate whose first events were published in another way';
comment on column {schema}.outbox.wire is
    'the bytes every attempt sends, made at the first one, or when the event was recorded; null if they are the body';
