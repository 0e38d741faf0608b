-- The statements that give a view's rights again.
select format(
    'grant %s on %s to %s%s', a.privilege_type, $1::text,
    case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end,
    case when a.is_grantable then ' with grant option' else '' end
) as statement
from pg_class c cross join lateral aclexplode(c.relacl) a
where c.oid = to_regclass($1::text) and a.grantee <> c.relowner
