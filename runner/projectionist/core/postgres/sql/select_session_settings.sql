-- Settings of this session as they are now, and its back end.
select name, current_setting(name) as value, pg_backend_pid() as backend from unnest($1::text[]) as asked (name)
