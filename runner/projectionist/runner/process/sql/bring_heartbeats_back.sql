-- Heartbeats that a clock has written which has gone back since are of now; the leases beside them end as long after as
-- they would have. A row that somebody holds is left alone: it is taken the next time, or written anew.
update {schema}.runners r
set beat = clock_timestamp(),
    leased_until = case when leased_until > beat then leased_until - (beat - clock_timestamp()) else leased_until end
from (
    select number from {schema}.runners
    where stopped is null and beat > clock_timestamp() + interval '1 second'
    order by number
    for update skip locked
) ahead
where r.number = ahead.number
