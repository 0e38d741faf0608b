-- Which of these messages PostgreSQL has refused: they are tried again from quarantine, or not at all.
select q.seq from {schema}.quarantine q join {schema}.consumers c on c.number = q.consumer
where q.consumer = $1 and q.incarnation = $2 and q.seq = any($3::bigint[])
    and q.reason = 'refused' and q.state <> 'released' and not c.repeats
