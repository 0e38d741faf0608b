-- What of the user's stands on a generation's table, with the statement that makes it on another, where there is one. A
-- policy that names the table itself would go on looking at the old one.
with t as (select c.* from pg_class c where c.oid = to_regclass($1::text)),
columns as (
    select a.* from t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
)
select kind, what, col, statement from (
    select 1 as n, 'grant' as kind, format('a grant of %s on %s', a.privilege_type, $1::text) as what, null::text as col, format(
        'grant %s on %s to %s%s', a.privilege_type, $2::text,
        case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end,
        case when a.is_grantable then ' with grant option' else '' end) as statement
    from t cross join lateral aclexplode(t.relacl) a where a.grantee <> t.relowner
    union all
    select 1, 'grant', format('a grant of %s on %I', a.privilege_type, c.attname), c.attname, format(
        'grant %s (%I) on %s to %s%s', a.privilege_type, c.attname, $2::text,
        case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end,
        case when a.is_grantable then ' with grant option' else '' end)
    from columns c cross join lateral aclexplode(c.attacl) a
    union all
    select 2, 'policy', format('policy %I', p.polname), null,
        case when strpos(concat(u.text, k.text), t.relname) = 0 then format(
            'create policy %I on %s as %s for %s to %s%s%s', p.polname, $2::text,
            case when p.polpermissive then 'permissive' else 'restrictive' end,
            case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
            (select string_agg(case when r = 0 then 'public' else quote_ident(pg_get_userbyid(r)) end, ', ') from unnest(p.polroles) r),
            ' using (' || u.text || ')', ' with check (' || k.text || ')') end
    from t join pg_policy p on p.polrelid = t.oid
    cross join lateral (select pg_get_expr(p.polqual, p.polrelid) as text) u
    cross join lateral (select pg_get_expr(p.polwithcheck, p.polrelid) as text) k
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
) around order by n, what
