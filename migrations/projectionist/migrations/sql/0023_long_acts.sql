-- Long acts of one process as operations: a rebuild, a verify, a replay. What they have done stands in tables of their own.

alter table {schema}.operations
    add column phase text,
    add column per_s double precision,
    drop constraint operations_outcome_check,
    add constraint operations_outcome_check check (outcome in ('done', 'none_got_through', 'untried', 'stopped', 'failed'));
comment on column {schema}.operations.phase is 'of a long act: what it is at; done is of this phase, and matched what it is about';
comment on column {schema}.operations.per_s is 'of a long act: how many are done a second in this phase; otherwise it follows from what is settled';
