-- What waits in quarantine from one subject, or of one aggregate.
select seq, version, reason from {schema}.quarantine
where consumer = $1 and state = 'quarantined' and (aggregate = $2 or subject = $3)
order by seq limit 100
