-- Statements that give to role $2 what of ours in schema $1, and of our views, belongs to another.
with ours as (
    select c.oid, c.relkind, c.relowner, n.nspname || '.' || c.relname as name,
        substring(obj_description(c.oid, 'pg_class') from '^projectionist: generation [0-9]+ of (.*)$') as public
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1::text and c.relkind in ('r', 'v')
)
select statement from (
    select 0 as n, format('alter schema %I owner to %I', nspname, $2::text) as statement
    from pg_namespace where nspname = $1 and pg_get_userbyid(nspowner) <> $2
    union all
    select 1, format('alter %s %s owner to %I', case relkind when 'v' then 'view' else 'table' end, oid::regclass, $2)
    from ours where pg_get_userbyid(relowner) <> $2
    union all
    select 2, format('alter function %s owner to %I', p.oid::regprocedure, $2)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = $1 and pg_get_userbyid(p.proowner) <> $2
    union all
    select distinct 3, format('alter view %s owner to %I', v.oid::regclass, $2)
    from ours t join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = t.oid and d.classid = 'pg_rewrite'::regclass
    join pg_rewrite r on r.oid = d.objid
    join pg_class v on v.oid = r.ev_class and v.relkind = 'v'
    join pg_namespace n on n.oid = v.relnamespace
    where t.public = n.nspname || '.' || v.relname and pg_get_userbyid(v.relowner) <> $2 and n.nspname <> $1
) given order by n, statement
