-- The statements that leave a table or view without the grants, policies and row-level security it has: those of the live
-- generation take their place. Default privileges make some, and so does the time when a kept generation was live.
with t as (select c.* from pg_class c where c.oid = to_regclass($1::text))
select distinct format('revoke all on %s from %s cascade', $1::text,
    case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end) as statement
from t cross join lateral aclexplode(t.relacl) a where a.grantee <> t.relowner
union all
select format('revoke all (%I) on %s from %s cascade', c.attname, $1::text,
    case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end)
from t join pg_attribute c on c.attrelid = t.oid and c.attnum > 0 and not c.attisdropped
cross join lateral (select distinct grantee from aclexplode(c.attacl)) a where a.grantee <> t.relowner
union all
select format('drop policy %I on %s', p.polname, $1::text) from t join pg_policy p on p.polrelid = t.oid
union all
select format('alter table %s disable row level security, no force row level security', $1::text)
from t where t.relrowsecurity or t.relforcerowsecurity
