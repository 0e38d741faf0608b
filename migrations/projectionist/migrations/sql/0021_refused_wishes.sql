-- A row of wishes that cannot be opened is put aside, with the reason: it keeps no other waiting.

alter table {schema}.wishes add column refused text;
comment on column {schema}.wishes.refused is 'why it could not be opened; the next relay that starts tries it again';
