-- Settings of the session that decide what statements write, and as whom. By name: to look through all of them takes ten
-- times as long, and this is asked in every batch.
select array[
    current_user, session_user, pg_catalog.current_setting('search_path'),
    pg_catalog.current_setting('session_replication_role'), pg_catalog.current_setting('row_security'),
    pg_catalog.current_setting('TimeZone'), pg_catalog.current_setting('DateStyle'),
    pg_catalog.current_setting('IntervalStyle'), pg_catalog.current_setting('extra_float_digits'),
    pg_catalog.current_setting('bytea_output'), pg_catalog.current_setting('lc_monetary'),
    pg_catalog.current_setting('lc_numeric'), pg_catalog.current_setting('lc_time'),
    pg_catalog.current_setting('default_text_search_config'), pg_catalog.current_setting('standard_conforming_strings'),
    pg_catalog.current_setting('array_nulls'), pg_catalog.current_setting('xmloption'),
    pg_catalog.current_setting('xmlbinary'), pg_catalog.current_setting('client_encoding'),
    pg_catalog.current_setting('check_function_bodies'), pg_catalog.current_setting('default_tablespace'),
    pg_catalog.current_setting('statement_timeout'), pg_catalog.current_setting('lock_timeout')
]::pg_catalog.text[]
