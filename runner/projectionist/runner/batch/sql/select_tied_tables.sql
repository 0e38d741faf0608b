-- $1: names of tables in {schema}. Returns those whose rows may be seen or changed by writing another table, or whose
-- writes may call something that looks elsewhere: by a trigger (foreign keys are), a rule, a policy, a parent or a
-- child, a domain, a sequence of its own choice, or a function or operator of a default, a constraint or an index.
select t.relname as name
from pg_class t
where t.relnamespace = to_regnamespace('{schema}')
  and t.relname = any($1::text[])
  and (
    t.relkind <> 'r'
    or t.relrowsecurity
    or exists (select from pg_trigger g where g.tgrelid = t.oid)
    or exists (select from pg_rewrite r where r.ev_class = t.oid)
    or exists (select from pg_inherits i where t.oid in (i.inhrelid, i.inhparent))
    or exists (
        select from pg_attribute a
        join pg_type k on k.oid = a.atttypid
        where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped and k.typtype = 'd'
    )
    or exists (
        select from pg_depend d
        left join pg_attrdef f on d.classid = 'pg_attrdef'::regclass and f.oid = d.objid
        left join pg_constraint c on d.classid = 'pg_constraint'::regclass and c.oid = d.objid
        left join pg_index x on d.classid = 'pg_class'::regclass and x.indexrelid = d.objid
        left join pg_class s on d.refclassid = 'pg_class'::regclass and s.oid = d.refobjid and s.relkind = 'S'
        where t.oid in (f.adrelid, c.conrelid, x.indrelid)
          and (d.refclassid in ('pg_proc'::regclass, 'pg_operator'::regclass) or s.oid is not null)
    )
  )
