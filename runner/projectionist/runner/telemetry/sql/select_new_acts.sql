-- Acts of operators behind place $1 of their chain; null: those of the last day, since who looks for the first time does not
-- know what has been told.
select c.place, encode(c.hash, 'hex') as hash, a.number, a.at, a.who, a.action, a.object, a.reason, a.detail::text as detail,
    a.session_role, a.client, a.os_user
from {schema}.audit_chain c join {schema}.audit a on a.number = c.number
where c.place > coalesce($1::bigint, 0) and ($1 is not null or a.at > clock_timestamp() - interval '1 day')
order by c.place limit 1000
