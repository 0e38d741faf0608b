-- Puts settings in force for this session; each as the server writes it, and the back end that has them now. The search
-- path is not ours yet: every function bears its schema.
select name, pg_catalog.set_config(name, value, false) as value, pg_catalog.pg_backend_pid() as backend
from pg_catalog.json_each_text($1::pg_catalog.json) as wanted (name, value)
