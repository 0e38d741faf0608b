-- A breaker for a consumer that has none: what does not exist cannot be locked.
insert into {schema}.consumer_breakers (consumer, state, epoch, failures, openings, until, reason)
values ($1, 'closed', 0, 0, 0, 'epoch', '')
on conflict do nothing
