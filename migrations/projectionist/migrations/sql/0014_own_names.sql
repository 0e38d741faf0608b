-- Whose the names of read models are: one consumer's, by the database's own word, also when its class is gone.

create table {schema}.own_names (
    name text collate "C" primary key,
    consumer integer not null
);
comment on table {schema}.own_names is
    'Public names, schema.table; the tables of all their generations have names that are derived from them alone.';
insert into {schema}.own_names (name, consumer)
select distinct on (t.name) t.name, g.consumer
from {schema}.generations g cross join lateral jsonb_object_keys(g.tables) as t (name)
where g.state <> 'dropped' order by t.name, (g.state = 'live') desc, g.consumer;
