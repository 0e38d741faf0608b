-- Closes the breaker, whoever probes; how often it had opened is forgotten.
update {schema}.consumer_breakers
set state = 'closed', epoch = epoch + 1, failures = 0, openings = 0, until = 'epoch', pause_s = 0, runner = null, reason = '',
    changed = clock_timestamp()
where consumer = $1 and state <> 'closed'
returning consumer
