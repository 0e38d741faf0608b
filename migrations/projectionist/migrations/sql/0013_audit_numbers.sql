-- Who acts chooses neither the number of the act nor where the chain begins: `insert` on the table was enough for both.

alter table {schema}.audit alter column number drop identity;
create sequence {schema}.audit_number_seq owned by {schema}.audit.number;
select setval(pg_get_serial_sequence(format('%I.audit', n.nspname), 'number'), coalesce(last.number, 1), last.number is not null)
from {schema}.audit_head h
join pg_class c on c.oid = h.tableoid
join pg_namespace n on n.oid = c.relnamespace
cross join (select max(number) as number from {schema}.audit_chain) last;

-- With the rights of the owner, so that who acts needs none on the sequence.
create function {schema}.number_act() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
    new.number := nextval(pg_get_serial_sequence(format('%I.%I', tg_table_schema, tg_table_name), 'number'));
    return new;
end $$;
revoke execute on function {schema}.number_act() from public;
create trigger number_act before insert on {schema}.audit for each row execute function {schema}.number_act();

-- With the rights of who acts: those who may remove acts say where the chain begins afterwards, and nobody else.
create function {schema}.guard_purge_act() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if not has_table_privilege(tg_relid, 'delete') then
        raise exception 'role % may not say that acts were purged', current_user using errcode = 'insufficient_privilege';
    end if;
    return new;
end $$;
create trigger guard_purge_act before insert on {schema}.audit for each row
when (new.action = 'purge-audit') execute function {schema}.guard_purge_act();
