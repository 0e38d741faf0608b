-- Puts settings in force for this session; each as the server writes it, and the back end that has them now.
select name, set_config(name, value, false) as value, pg_backend_pid() as backend
from json_each_text($1::json) as wanted (name, value)
