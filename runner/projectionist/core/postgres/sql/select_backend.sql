-- The back end that answers.
select pg_backend_pid()
