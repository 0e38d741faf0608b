-- Standbys on which a snapshot may be older than the rows of the shadow, and those that do not say. What receives for an
-- archive has no readers; a slot that nobody uses holds what its standby said last.
with standby as (
    select 'standby ' || quote_literal(a.application_name) || ' (pid ' || a.pid || ')' as name,
        coalesce(r.xmin, a.backend_xmin) as xmin
    from pg_stat_replication s join pg_stat_activity a on a.pid = s.pid
    left join pg_replication_slots r on r.active_pid = s.pid
    where a.datid is null and a.application_name not in ('pg_receivewal', 'pg_basebackup')
    union all
    select 'slot ' || quote_literal(slot_name), xmin from pg_replication_slots
    where slot_type = 'physical' and xmin is not null and active_pid is null
)
select s.name, s.xmin is null as unseen from standby s, {schema}.builds b
where b.number = $1 and b.settled is not null and (s.xmin is null or age(s.xmin) >= age(b.settled::xid))
order by 1
