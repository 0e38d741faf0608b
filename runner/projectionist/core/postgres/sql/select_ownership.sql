-- Whether this role may make and drop tables in schema $1, who it is, and who owns our tables.
select current_user::text as role, pg_get_userbyid(c.relowner)::text as owner,
    has_schema_privilege(n.oid, 'create') and not exists (
        select from pg_class t where t.relnamespace = n.oid and t.relkind = 'r' and not pg_has_role(t.relowner, 'usage')
    ) as owns
from pg_namespace n join pg_class c on c.relnamespace = n.oid and c.relname = 'consumers' where n.nspname = $1::text
