-- Views, materialized views and functions that stand on a view.
select distinct pg_describe_object(classid, objid, 0) as name from (
    select 'pg_class'::regclass as classid, r.ev_class as objid
    from pg_depend d join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
    where d.refclassid = 'pg_class'::regclass and d.refobjid = to_regclass($1) and r.ev_class <> to_regclass($1)
    union all
    select d.classid, d.objid from pg_depend d
    where d.refclassid = 'pg_class'::regclass and d.refobjid = to_regclass($1) and d.classid = 'pg_proc'::regclass
) standing order by 1
