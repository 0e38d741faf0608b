-- The audit trail: who was behind an act is the database's word, acts are appended and nothing else, and each one's hash
-- covers the one before it.

alter table {schema}.audit
    add column session_role text,
    add column client text,
    add column os_user text;
comment on column {schema}.audit.session_role is 'who logged in to the database, by its own word; `who` is what was said';
comment on column {schema}.audit.client is 'the address that the session came from; null: over a socket of the machine';
comment on column {schema}.audit.os_user is 'the account that the process ran under, by the word of our client';

create table {schema}.audit_chain (
    place bigint primary key,
    number bigint not null unique,
    hash bytea not null
);
comment on table {schema}.audit_chain is
    'One row per act, in the order of their commits. Apart from the acts, whose rows are never written twice.';

create table {schema}.audit_head (
    one boolean default true primary key check (one),
    place bigint not null,
    hash bytea not null,
    writer xid8
) with (fillfactor = 50);
comment on table {schema}.audit_head is
    'Locked by each act as the last thing of its transaction, in its commit: so acts wait for each other in one order.';
comment on column {schema}.audit_head.place is
    'where the chain ended before the transaction that wrote to it last: written once in each, however many its acts are';
insert into {schema}.audit_head (place, hash) values (0, decode(repeat('00', 32), 'hex'));

-- Each field as its length and its bytes, so that no two acts are one text.
create function {schema}.audit_hash(before bytea, act {schema}.audit) returns bytea language sql stable parallel safe
set search_path = pg_catalog, pg_temp as $$
    select sha256(before || convert_to(string_agg(coalesce(octet_length(field) || ':' || field, '-'), ',' order by n), 'UTF8'))
    from unnest(array[
        act.number::text, (extract(epoch from act.at) * 1000000)::bigint::text, act.who, act.action, act.object, act.reason,
        act.detail::text, act.session_role, act.client, act.os_user
    ]) with ordinality as fields (field, n)
$$;

-- Acts from before the chain take their places in it.
do $$
declare
    act {schema}.audit;
    last {schema}.audit_chain;
begin
    select place, 0, hash into strict last from {schema}.audit_head;
    for act in select * from {schema}.audit order by number loop
        last := (last.place + 1, act.number, {schema}.audit_hash(last.hash, act));
        insert into {schema}.audit_chain values (last.*);
    end loop;
    update {schema}.audit_head set place = last.place, hash = last.hash;
end $$;

create function {schema}.witness_act() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    new.at := clock_timestamp();
    new.session_role := session_user;
    new.client := host(inet_client_addr());
    new.os_user := nullif(current_setting('projectionist.os_user', true), '');
    return new;
end $$;
create trigger witness_act before insert on {schema}.audit for each row execute function {schema}.witness_act();

-- With the rights of the owner, so that who acts needs none on the chain.
create function {schema}.chain_act() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    head {schema}.audit_head;
    last {schema}.audit_chain;
begin
    select * into strict head from {schema}.audit_head for update;
    select * into last from {schema}.audit_chain order by place desc limit 1;
    if last is null then
        last.place := head.place;
        last.hash := head.hash;
    end if;
    if head.writer is distinct from pg_current_xact_id() then
        update {schema}.audit_head set place = last.place, hash = last.hash, writer = pg_current_xact_id();
    end if;
    insert into {schema}.audit_chain (place, number, hash)
    values (last.place + 1, new.number, {schema}.audit_hash(last.hash, new));
    return null;
end $$;
revoke execute on function {schema}.chain_act() from public;
create constraint trigger chain_act after insert on {schema}.audit
deferrable initially deferred for each row execute function {schema}.chain_act();

-- Against accidents and against roles with too many rights. The owner of a table can switch a trigger off: what the chain
-- and a copy elsewhere are for.
create function {schema}.keep_acts() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'DELETE' and current_setting('projectionist.purges', true) = 'audit' then
        return old;
    end if;
    if tg_level = 'ROW' and tg_op = 'UPDATE' and tg_table_name = 'audit_head' and pg_trigger_depth() > 1 then
        return new;
    end if;
    raise exception 'the audit trail is appended to and nothing else: % of %.% is refused', lower(tg_op), tg_table_schema, tg_table_name
        using errcode = 'object_not_in_prerequisite_state', hint = 'Acts leave it by `projectionist purge` alone.';
end $$;
create trigger keep_acts before update or delete on {schema}.audit for each row execute function {schema}.keep_acts();
create trigger keep_all_acts before truncate on {schema}.audit for each statement execute function {schema}.keep_acts();
create trigger keep_acts before update or delete on {schema}.audit_chain for each row execute function {schema}.keep_acts();
create trigger keep_all_acts before truncate on {schema}.audit_chain for each statement execute function {schema}.keep_acts();
create trigger keep_acts before update or delete on {schema}.audit_head for each row execute function {schema}.keep_acts();
create trigger keep_all_acts before truncate on {schema}.audit_head for each statement execute function {schema}.keep_acts();

comment on table {schema}.audit is
    'Every act of an operator: append only, and chained. The owner''s purge alone removes the oldest, if the settings say so.';
