-- Asks whoever carries an operation out to stop; where nobody has said so for $4 seconds it has ended. None if it had before.
update {schema}.operations o
set stop_asked_by = coalesce(o.stop_asked_by, $2), stop_reason = coalesce(o.stop_reason, $3),
    ended = case when gone.over then clock_timestamp() end,
    outcome = case when gone.over then 'stopped' end,
    note = case when gone.over then $5 else o.note end
from (
    select number, owner is null or beat < clock_timestamp() - $4::float8 * interval '1 second' as over
    from {schema}.operations where number = $1 for update
) gone
where o.number = gone.number and o.ended is null
returning o.ended is not null as ended
