-- Settings of the server that decide how fast it may be.
select name, current_setting(name) as value from pg_settings
where name in (
    'server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'max_wal_size', 'wal_compression'
)
order by name
