-- What of the server decides whether a commit is safe and a connection is to be had.
select current_setting('server_version') as version, current_setting('server_version_num')::integer as number,
    current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
    (select coalesce(s.setconfig, '{}') from pg_database d left join pg_db_role_setting s
        on s.setdatabase = d.oid and s.setrole = 0 where d.datname = current_database()) as of_database,
    current_setting('synchronous_commit') as synchronous_commit, current_setting('autovacuum') as autovacuum,
    current_setting('synchronous_standby_names') as synchronous_standby_names,
    (select count(*) from pg_stat_replication where state = 'streaming') as followers,
    array(select a.application_name::text from pg_stat_replication s join pg_stat_activity a on a.pid = s.pid
        left join pg_replication_slots r on r.active_pid = s.pid
        where a.datid is null and a.application_name not in ('pg_receivewal', 'pg_basebackup')
            and coalesce(r.xmin, a.backend_xmin) is null order by 1) as silent_standbys,
    (select count(*) from pg_stat_activity where datname = current_database() and usesysid is not null
        and not pg_has_role(usesysid, 'usage') and not pg_has_role('pg_read_all_stats', 'usage')) as hidden,
    current_setting('track_counts') as track_counts, pg_is_in_recovery() as standby, pg_backend_pid() as backend,
    coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as encrypted,
    current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
        - (select count(*) from pg_stat_activity where backend_type = 'client backend')::integer as free,
    current_setting('max_connections')::integer as connections, clock_timestamp() as now,
    pg_database_size(current_database()) as bytes, inet_server_addr() is not null as remote,
    coalesce((select max(extract(epoch from clock_timestamp() - xact_start))::float8 from pg_stat_activity
        where datname = current_database() and state like 'idle in transaction%'), 0) as oldest_idle_s
