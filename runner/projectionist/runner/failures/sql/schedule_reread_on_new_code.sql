-- What other code could not read is read again, at most $3 of it; what contradicts another event stays.
with chosen as (
    select incarnation, seq from {schema}.quarantine
    where consumer = $1 and state = 'quarantined' and (due is null or due > clock_timestamp()) and code is distinct from $2
        and reason not in ('identity_reuse', 'version_reuse')
    order by incarnation, seq limit $3
    for update skip locked
)
update {schema}.quarantine q set due = clock_timestamp()
from chosen where q.consumer = $1 and q.incarnation = chosen.incarnation and q.seq = chosen.seq
