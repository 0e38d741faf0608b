-- What the twin of the relay takes next.
update {schema}.intents set state = 'leased', token = $1, lease_until = clock_timestamp() + interval '30 seconds'
where seq in (
    select seq from {schema}.intents where open and state = 'ready' order by seq limit $2 for update skip locked
)
returning seq, key, body
