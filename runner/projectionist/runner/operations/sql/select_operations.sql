-- Operations, the newest first: one of them ($1), those that are open ($2), those before a number ($3).
select number, kind, chosen::text as chosen, who, reason, rate, patience_s, began, matched, done, failed, refused, owner, beat,
    extract(epoch from clock_timestamp() - beat)::float8 as silent_s, stop_asked_by, stop_reason, ended, outcome, note, phase, per_s as pace,
    (select coalesce(sum(s.tried), 0)::bigint from {schema}.operation_samples s where s.operation = o.number and s.open) as tried,
    ended is null and owner is not null and beat >= clock_timestamp() - $5::float8 * interval '1 second' as is_carried_out
from {schema}.operations o
where ($1::bigint is null or number = $1) and (not $2 or ended is null) and ($3::bigint is null or number < $3)
order by number desc limit $4
