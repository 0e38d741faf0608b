-- Whether nobody may try anything for this consumer now: it is open, or another's probe is out.
select exists (
    select from {schema}.consumer_breakers b join {schema}.consumers c on c.number = b.consumer
    where c.name = $1 and state <> 'closed' and until > clock_timestamp()
        and until <= clock_timestamp() + make_interval(secs => pause_s)
)
