-- What waits in quarantine from one subject ($3), or of one aggregate; and behind $5, what was refused of it and then discarded.
select seq, version, reason from {schema}.quarantine
where consumer = $1 and state = 'quarantined' and (aggregate = $2 or subject = $3)
union all
select seq, version, state from {schema}.quarantine
where consumer = $1 and incarnation = $4 and seq > $5 and state = 'discarded' and reason = 'refused'
    and (aggregate = $2 or subject = $3)
order by seq limit 100
