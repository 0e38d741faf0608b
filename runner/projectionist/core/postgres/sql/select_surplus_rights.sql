-- What the roles $6 were granted by name on things of schema $1 and on our views, and on columns of them, beyond the rights $2 to
-- $5 (role, kind, name, privilege), and what they may grant to others. What a table's owner has is not granted.
with ours as (
    select c.oid, c.relname::text as name, c.relkind, c.relacl, c.relowner,
        substring(obj_description(c.oid, 'pg_class') from '^projectionist: generation [0-9]+ of (.*)$') as public
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1::text and c.relkind in ('r', 'v', 'S')
),
read_models as (
    select distinct v.oid, v.relacl, v.relowner
    from ours t join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = t.oid and d.classid = 'pg_rewrite'::regclass
    join pg_rewrite r on r.oid = d.objid
    join pg_class v on v.oid = r.ev_class and v.relkind = 'v'
    join pg_namespace n on n.oid = v.relnamespace
    where t.public = n.nspname || '.' || v.relname
),
granted as (
    select case when public is not null then 'rows' when relkind = 'S' then 'sequence' else 'table' end as kind,
        case when public is null then name else '' end as name, oid, relacl as acl, oid::regclass::text as object, relowner as owner
    from ours
    union all
    select 'view', '', oid, relacl, oid::regclass::text, relowner from read_models
    union all
    select 'schema', '', null, nspacl, 'schema ' || quote_ident(nspname), nspowner from pg_namespace where nspname = $1
),
each as (
    select g.*, null::name as col, a.* from granted g cross join lateral aclexplode(g.acl) a
    union all
    select g.*, c.attname, a.* from granted g
    join pg_attribute c on c.attrelid = g.oid and c.attnum > 0 and not c.attisdropped cross join lateral aclexplode(c.attacl) a
),
wanted as (
    select * from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as w (role, kind, name, privilege)
)
select pg_get_userbyid(g.grantee)::text as role, case when g.kind = 'sequence' then 'sequence ' else '' end || g.object as object,
    array_agg(distinct lower(g.privilege_type) || coalesce(' (' || quote_ident(g.col) || ')', '')) as privileges,
    w.role is not null as wanted, g.is_grantable as grantable
from each g
left join wanted w on (w.role, w.kind, w.name, w.privilege)
    = (pg_get_userbyid(g.grantee)::text, g.kind, g.name, lower(g.privilege_type))
where g.grantee not in (0, g.owner) and pg_get_userbyid(g.grantee)::text = any($6::text[])
    and (w.role is null or g.is_grantable)
group by 1, 2, 4, 5 order by 1, 2, 4, 5 desc
