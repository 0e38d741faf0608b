-- Whether an observer is connected under this name, and whether runners or relays have told a heartbeat in the last $2 seconds.
select exists (
        select from pg_stat_activity where datname = current_database() and application_name = $1
    ) as observed,
    exists (
        select from {schema}.runners where stopped is null and beat > clock_timestamp() - make_interval(secs => $2)
    ) or exists (
        select from {schema}.relays where beat > clock_timestamp() - make_interval(secs => $2)
    ) as fleet
