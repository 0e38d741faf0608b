-- Which of these messages were discarded, or refused by PostgreSQL, or corrected: they come out of quarantine, or not at all.
select q.seq from {schema}.quarantine q
where q.consumer = $1 and q.incarnation = $2 and q.seq = any($3::bigint[])
    and (q.state = 'discarded' or q.state = 'quarantined' and (q.reason = 'refused' or q.edit is not null))
