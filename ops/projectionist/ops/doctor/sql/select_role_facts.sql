-- Who may do more than it should: runners ($2: on record as such) that own our tables in schema $1 or are superusers, schemas of the
-- search path in which everybody may create, and rights of everybody on what is ours.
with ours as (
    select c.oid, c.relacl, c.relowner from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1::text and c.relkind in ('r', 'v', 'S')
),
runners as (
    select distinct r.oid, r.rolname, r.rolsuper from pg_roles r
    where r.rolname = any($2::text[]) or r.oid in (
        select usesysid from pg_stat_activity where datname = current_database() and application_name ~ '^projectionist [0-9]+@'
    )
)
select inet_server_addr() is null or inet_server_addr() <<= '127.0.0.0/8' or inet_server_addr() = '::1' as local,
    array(select rolname::text from runners
        where rolsuper or exists (select from ours where relowner = runners.oid) order by 1) as owning,
    array(select n.nspname::text from pg_namespace n cross join lateral aclexplode(n.nspacl) a
        where a.grantee = 0 and a.privilege_type = 'CREATE' and n.nspname = any($3::text[]) order by 1) as open_schemas,
    array(select distinct oid::regclass::text from ours cross join lateral aclexplode(relacl) a where a.grantee = 0
        union select 'schema ' || quote_ident(n.nspname) from pg_namespace n cross join lateral aclexplode(n.nspacl) a
        where a.grantee = 0 and n.nspname = $1 order by 1) as of_everybody
