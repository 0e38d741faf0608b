-- Locks what is to come out of quarantine, if it is to, still.
select seq, due from {schema}.quarantine
where consumer = $1 and incarnation = $2 and seq = any($3::bigint[]) and state = 'quarantined' and due is not null
order by seq
for update
