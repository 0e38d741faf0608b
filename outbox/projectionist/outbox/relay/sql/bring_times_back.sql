-- A time that a clock which has gone back since has written too far ahead ends after its longest time: a lease after $2
-- seconds, a wait after $3. $4: first attempts are older than they look by so many seconds.
with rates as (
    update {schema}.buckets set refilled = clock_timestamp() where provider = $1 and refilled > clock_timestamp()
),
ahead as (
    select seq from {schema}.outbox
    where open and provider = $1 and (
        lease_until > clock_timestamp() + make_interval(secs => $2) or due > clock_timestamp() + make_interval(secs => $3)
        or ($4::float8 > 0 and first_started is not null)
    )
    order by seq
    for update
)
update {schema}.outbox o
set lease_until = case when lease_until is not null
        then least(lease_until, clock_timestamp() + make_interval(secs => $2)) end,
    due = case when due is not null then least(due, clock_timestamp() + make_interval(secs => $3)) end,
    first_started = first_started - make_interval(secs => $4)
from ahead where o.seq = ahead.seq
