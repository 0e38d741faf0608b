-- One entry of quarantine, locked, with the headers that its last edit gave it.
select q.state, q.reason, q.source, q.id, q.hash, q.attempts, coalesce(d.headers, q.headers) as headers,
    d.headers is null and q.headers is null and q.data is null as is_reference
from {schema}.quarantine q
left join {schema}.decisions d on d.number = q.edit
where q.consumer = $1 and q.incarnation = $2 and q.seq = $3
for update of q
