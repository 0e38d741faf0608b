-- Where a session of this role in this database looks for names if nobody says otherwise.
select reset_val from pg_catalog.pg_settings where name operator(pg_catalog.=) 'search_path'
