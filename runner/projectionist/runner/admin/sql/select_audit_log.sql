-- The audit trail, the newest act last.
select number, at, who, action, object, reason, detail::text as detail, session_role, client, os_user
from (
    select * from {schema}.audit
    where ($1::text is null or object = $1 or starts_with(object, $1 || ': ')) and ($2::text is null or who = $2)
        and ($3::text is null or action = $3) and ($4::text is null or strpos(object, $4) > 0)
        and ($5::float8 is null or at > clock_timestamp() - $5 * interval '1 second')
        and ($6::bigint is null or number < $6)
    order by number desc limit $7
) newest
order by number
