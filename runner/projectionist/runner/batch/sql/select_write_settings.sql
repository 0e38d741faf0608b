-- Settings of the session that decide what statements write, and as whom. By name: to look through all of them takes ten
-- times as long, and this is asked in every batch.
select array[
    current_user, session_user, current_setting('search_path'), current_setting('session_replication_role'),
    current_setting('row_security'), current_setting('TimeZone'), current_setting('DateStyle'),
    current_setting('IntervalStyle'), current_setting('extra_float_digits'), current_setting('bytea_output'),
    current_setting('lc_monetary'), current_setting('lc_numeric'), current_setting('lc_time'),
    current_setting('default_text_search_config'), current_setting('standard_conforming_strings'),
    current_setting('array_nulls'), current_setting('xmloption'), current_setting('xmlbinary'),
    current_setting('client_encoding'), current_setting('check_function_bodies'), current_setting('default_tablespace'),
    current_setting('statement_timeout'), current_setting('lock_timeout')
]::text[]
