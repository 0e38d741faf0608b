-- An incident that was refuted, or settled by an act on what it is about, closes by itself and says by what.

alter table {schema}.incidents add column settled text;
comment on column {schema}.incidents.settled is
    'by which event or act it was closed without somebody having to close it; null: open, or closed by a person';
create index incidents_open on {schema}.incidents (consumer) where closed is null;
