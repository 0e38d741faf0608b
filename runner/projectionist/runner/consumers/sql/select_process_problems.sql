-- What processes that live cannot do at the moment.
select consumer, what, state, host, pid, reason, remedy, since
from {schema}.setbacks where until > clock_timestamp()
order by consumer, what, since, host, pid
