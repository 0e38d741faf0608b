-- What the twin of the relay takes next.
with taken as (
    update {schema}.outbox set state = 'leased', token = $1, lease_until = clock_timestamp() + interval '30 seconds'
    where seq in (
        select seq from {schema}.outbox where state = 'ready' order by seq limit $2 for update skip locked
    )
    returning seq
)
select i.seq, i.key, i.body from taken join {schema}.intents i on i.seq = taken.seq
