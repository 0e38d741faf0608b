-- The lowest stream sequence that this consumer has settled by applying, and whether any is of an earlier stream of the name;
-- of rows that retention has removed, their lowest is remembered (0: of an earlier stream).
select least(min(i.seq), f.purged_from) as first, coalesce(bool_or(i.incarnation < $2), false) as earlier
from (select min(purged_from) as purged_from from {schema}.floors where consumer = $1) f
left join {schema}.inbox i on i.consumer = $1 and i.state in ('applied', 'ignored')
group by f.purged_from
