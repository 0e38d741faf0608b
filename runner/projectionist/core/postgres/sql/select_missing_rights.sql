-- Of the rights that roles are to have ($2 to $5: role, kind, name, privilege) on what there is in schema $1, those they lack.
with ours as (
    select c.oid, c.relname::text as name, c.relkind, c.relnamespace,
        substring(obj_description(c.oid, 'pg_class') from '^projectionist: generation [0-9]+ of (.*)$') as public
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1::text and c.relkind in ('r', 'v', 'S')
),
read_models as (
    select distinct v.oid, v.relnamespace
    from ours t join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = t.oid and d.classid = 'pg_rewrite'::regclass
    join pg_rewrite r on r.oid = d.objid
    join pg_class v on v.oid = r.ev_class and v.relkind = 'v'
    join pg_namespace n on n.oid = v.relnamespace
    where t.public = n.nspname || '.' || v.relname
),
things as (
    select case when public is not null then 'rows' when relkind = 'S' then 'sequence' else 'table' end as kind,
        case when public is null then name else '' end as name, oid, oid::regclass::text as object
    from ours
    union all
    select 'view', '', oid, oid::regclass::text from read_models
    union all
    select 'schema', '', oid, 'schema ' || quote_ident(nspname) from pg_namespace where nspname = $1
    union all
    select 'schema', 'view', n.oid, 'schema ' || quote_ident(n.nspname)
    from pg_namespace n where n.oid in (select relnamespace from read_models)
),
wanted as (
    select * from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as w (role, kind, name, privilege)
)
select w.role, case when t.kind = 'sequence' then 'sequence ' else '' end || t.object as object, array_agg(w.privilege) as privileges
from wanted w join things t on (t.kind, t.name) = (w.kind, w.name)
where not case t.kind
    when 'schema' then has_schema_privilege(w.role, t.oid, w.privilege)
    when 'sequence' then has_sequence_privilege(w.role, t.oid, w.privilege)
    else has_table_privilege(w.role, t.oid, w.privilege) end
group by w.role, t.kind, t.object
order by w.role, t.kind = 'schema' desc, t.object
