-- What waits in quarantine from one subject ($3), or of one aggregate, and what was discarded of it: of the versions from $6
-- to $7, and behind $5 where the version was never read; who discarded it, and when.
select seq, version, reason, null::text as actor, null::timestamptz as at, null::text as why
from {schema}.quarantine
where consumer = $1 and state = 'quarantined' and (aggregate = $2 or subject = $3)
union all
select q.seq, q.version, q.reason, d.actor, d.at, d.reason
from {schema}.quarantine q
join {schema}.decisions d on d.consumer = q.consumer and d.incarnation = q.incarnation and d.seq = q.seq
    and d.kind = 'discard'
where q.consumer = $1 and q.incarnation = $4 and q.state = 'discarded' and (q.aggregate = $2 or q.subject = $3)
    and (q.version between $6 and $7 or q.version is null and q.seq > $5)
order by seq limit 100
