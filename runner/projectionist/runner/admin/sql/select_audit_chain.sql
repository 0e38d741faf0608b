-- The audit trail in the order of its chain from behind place $1 on, each field as text, and acts that are in no chain at its end.
select c.place, c.hash, coalesce(a.number, c.number) as number, a.number is not null as there, a.at,
    (extract(epoch from a.at) * 1000000)::bigint::text as micros, a.who, a.action, a.object, a.reason, a.detail::text as detail,
    a.session_role, a.client, a.os_user
from {schema}.audit_chain c full join {schema}.audit a on a.number = c.number
where c.place is null or c.place > $1
order by c.place nulls last, a.number limit $2
