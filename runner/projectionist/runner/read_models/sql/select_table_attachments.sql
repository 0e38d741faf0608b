-- What of the user's stands on a generation's table, with the statement that makes it on another, where there is one. What
-- reads the table itself ($3 is the view that is ours) would go on reading the old one; so would a policy that reads the
-- table, or another generation's. One that only compares its columns names them with the table's name.
with t as (select c.* from pg_class c where c.oid = to_regclass($1::text)),
f as (select c.* from pg_class c where c.oid = to_regclass($2::text)),
ours as (
    select c.oid from pg_class c join t on c.relnamespace = t.relnamespace
    where obj_description(c.oid, 'pg_class') like 'projectionist: generation %'
),
columns as (
    select a.* from t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
)
select kind, what, col, statement from (
    select 0 as n, 'owner' as kind, 'its owner' as what, null::text as col,
        format('alter table %s owner to %I', $2::text, pg_get_userbyid(t.relowner)) as statement
    from t, f where f.relowner <> t.relowner
    union all
    select 0, 'option', format('option %s of %s', o, $1::text), null, format('alter table %s set (%s)', $2::text, o)
    from t cross join lateral unnest(t.reloptions) o
    union all
    select 0, 'option', format('the replica identity of %s', $1::text), null, case t.relreplident
        when 'f' then format('alter table %s replica identity full', $2::text)
        when 'n' then format('alter table %s replica identity nothing', $2::text) end
    from t, f where t.relreplident <> 'd' and t.relreplident <> f.relreplident
    union all
    select 0, 'comment', format('the comment of %I', c.attname), c.attname,
        format('comment on column %s.%I is %L', $2::text, c.attname, d)
    from columns c cross join lateral col_description(c.attrelid, c.attnum) d where d is not null
    union all
    select 0, 'option', format('the statistics target of %I', c.attname), c.attname,
        format('alter table %s alter column %I set statistics %s', $2::text, c.attname, c.attstattarget)
    from columns c where c.attstattarget >= 0
    union all
    select 0, 'constraint', format('constraint %I', k.conname), null,
        format('alter table %s add constraint %I %s not valid', $2::text, k.conname, pg_get_constraintdef(k.oid))
    from t cross join f join pg_constraint k on k.conrelid = t.oid and k.contype = 'c'
    where not exists (
        select from pg_constraint o
        where o.conrelid = f.oid and o.contype = 'c' and pg_get_constraintdef(o.oid) = pg_get_constraintdef(k.oid)
    )
    union all
    select 1, 'grant', format('a grant of %s on %s', a.privilege_type, $1::text), null, format(
        'grant %s on %s to %s%s', a.privilege_type, $2::text,
        case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end,
        case when a.is_grantable then ' with grant option' else '' end)
    from t cross join lateral aclexplode(t.relacl) a where a.grantee <> t.relowner
    union all
    select 1, 'grant', format('a grant of %s on %I', a.privilege_type, c.attname), c.attname, format(
        'grant %s (%I) on %s to %s%s', a.privilege_type, c.attname, $2::text,
        case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end,
        case when a.is_grantable then ' with grant option' else '' end)
    from columns c cross join lateral aclexplode(c.attacl) a
    union all
    select 2, 'policy', format('policy %I', p.polname), null,
        case when strpos(concat(u.rest, k.rest), t.relname) = 0 and not exists (
            select from pg_depend d join ours on ours.oid = d.refobjid and d.refobjid <> t.oid
            where d.classid = 'pg_policy'::regclass and d.objid = p.oid and d.refclassid = 'pg_class'::regclass
        ) then format(
            'create policy %I on %s as %s for %s to %s%s%s', p.polname, $2::text,
            case when p.polpermissive then 'permissive' else 'restrictive' end,
            case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
            (select string_agg(case when r = 0 then 'public' else quote_ident(pg_get_userbyid(r)) end, ', ') from unnest(p.polroles) r),
            ' using (' || u.text || ')', ' with check (' || k.text || ')') end
    from t cross join f join pg_policy p on p.polrelid = t.oid
    cross join lateral (select quote_ident(t.relname) || '.' as old, quote_ident(f.relname) || '.' as fresh) q
    cross join lateral (select pg_get_expr(p.polqual, p.polrelid) as said) us
    cross join lateral (select pg_get_expr(p.polwithcheck, p.polrelid) as said) ks
    cross join lateral (select replace(us.said, q.old, q.fresh) as text, replace(us.said, q.old, '') as rest) u
    cross join lateral (select replace(ks.said, q.old, q.fresh) as text, replace(ks.said, q.old, '') as rest) k
    union all
    select 3, 'policy', 'row-level security', null, format('alter table %s enable row level security', $2::text)
    from t where t.relrowsecurity
    union all
    select 3, 'policy', 'forced row-level security', null, format('alter table %s force row level security', $2::text)
    from t where t.relforcerowsecurity
    union all
    select 4, 'trigger', format('trigger %I on %s', g.tgname, $1::text), null, null
    from t join pg_trigger g on g.tgrelid = t.oid and not g.tgisinternal
    union all
    select 4, 'rule', format('rule %I on %s', r.rulename, $1::text), null, null from t join pg_rewrite r on r.ev_class = t.oid
    union all
    select 4, 'publication', format('publication %I of %s', b.pubname, $1::text), null, null
    from t join pg_publication_rel m on m.prrelid = t.oid join pg_publication b on b.oid = m.prpubid
    union all
    select 4, 'reader', format('%s, which depends on %s', pg_describe_object(d.classid, d.objid, 0), $1::text), null, null
    from (
        select distinct case when r.oid is null then d.classid else 'pg_class'::regclass end as classid,
            coalesce(r.ev_class, d.objid) as objid
        from t join pg_depend d on d.deptype = 'n' and (
            (d.refclassid = 'pg_class'::regclass and d.refobjid = t.oid)
            or (d.refclassid = 'pg_type'::regclass and d.refobjid in (t.reltype, (select typarray from pg_type where oid = t.reltype)))
        )
        left join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
        left join pg_constraint k on d.classid = 'pg_constraint'::regclass and k.oid = d.objid
        left join pg_policy p on d.classid = 'pg_policy'::regclass and p.oid = d.objid
        where r.ev_class is distinct from to_regclass($3::text) and r.ev_class is distinct from t.oid
            and not coalesce(k.conrelid in (select oid from ours), false)
            and p.polrelid is distinct from t.oid
            and d.classid not in ('pg_trigger'::regclass, 'pg_attrdef'::regclass)
            and not (d.classid = 'pg_class'::regclass and d.objid in (select indexrelid from pg_index where indrelid = t.oid))
    ) d
) around order by n, what
