-- Operations on quarantine: an entry of it is a place of the stream, and may have no identity.

alter table {schema}.operation_items
    alter column source drop not null,
    alter column id drop not null,
    add column incarnation integer,
    add column seq bigint,
    add constraint operation_items_subject check (seq is not null or (source is not null and id is not null));
comment on column {schema}.operation_items.seq is 'of an entry of quarantine, with its incarnation; null: it is a parked event';
