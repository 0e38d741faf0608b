-- A view that joins a set makes no effect of what the stream held when its build was opened, nor of what the build has folded.

alter table {schema}.builds
    add column top bigint not null default 0;
comment on column {schema}.builds.top is
    'up to this sequence a view that joins makes no effects: the stream''s last when it was opened, and what was folded since';
