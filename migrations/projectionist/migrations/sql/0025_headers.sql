-- Which header each process reads a part of the envelope from: processes of one consumer have to agree.

alter table {schema}.runners add column headers jsonb;
comment on column {schema}.runners.headers is 'the header, in lower case, that each part of the envelope is read from';
