-- What stands around a view, with the statement that makes it again, where there is one; its columns' things by column.
with v as (select c.* from pg_class c where c.oid = to_regclass($1::text)),
columns as (
    select a.* from v join pg_attribute a on a.attrelid = v.oid and a.attnum > 0 and not a.attisdropped
)
select kind, what, col, statement from (
    select 1 as n, 'option' as kind, 'option ' || o as what, null::text as col,
        format('alter view %s set (%s)', $1::text, o) as statement
    from v cross join lateral unnest(v.reloptions) o
    union all
    select 2, 'comment', 'its comment', null, format('comment on view %s is %L', $1::text, d)
    from v cross join lateral obj_description(v.oid, 'pg_class') d where d is not null
    union all
    select 2, 'comment', format('the comment of %I', c.attname), c.attname,
        format('comment on column %s.%I is %L', $1::text, c.attname, d)
    from columns c cross join lateral col_description(c.attrelid, c.attnum) d where d is not null
    union all
    select 3, 'default', format('the default of %I', c.attname), c.attname,
        format('alter view %s alter column %I set default %s', $1::text, c.attname, pg_get_expr(d.adbin, d.adrelid))
    from columns c join pg_attrdef d on d.adrelid = c.attrelid and d.adnum = c.attnum
    union all
    select 4, 'rule', format('rule %I', r.rulename), null, case r.ev_enabled when 'O' then pg_get_ruledef(r.oid) end
    from v join pg_rewrite r on r.ev_class = v.oid and r.rulename <> '_RETURN'
    union all
    select 4, 'trigger', format('trigger %I', t.tgname), null, case t.tgenabled when 'O' then pg_get_triggerdef(t.oid) end
    from v join pg_trigger t on t.tgrelid = v.oid and not t.tgisinternal
    union all
    select 5, 'grant', format('a grant of %s', a.privilege_type), null, format(
        'grant %s on %s to %s%s', a.privilege_type, $1::text,
        case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end,
        case when a.is_grantable then ' with grant option' else '' end)
    from v cross join lateral aclexplode(v.relacl) a where a.grantee <> v.relowner
    union all
    select 5, 'grant', format('a grant of %s on %I', a.privilege_type, c.attname), c.attname, format(
        'grant %s (%I) on %s to %s%s', a.privilege_type, c.attname, $1::text,
        case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end,
        case when a.is_grantable then ' with grant option' else '' end)
    from columns c cross join lateral aclexplode(c.attacl) a
    union all
    select 6, 'label', 'its security label', null, null
    from v where exists (select from pg_seclabel s where s.classoid = 'pg_class'::regclass and s.objoid = v.oid)
    union all
    select 7, 'owner', 'its owner', null, format('alter view %s owner to %I', $1::text, pg_get_userbyid(v.relowner))
    from v where pg_get_userbyid(v.relowner) <> current_user
) around order by n, what
