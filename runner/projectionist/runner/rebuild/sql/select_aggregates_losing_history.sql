-- Aggregates of which the stream no longer holds an event that live has applied.
select distinct aggregate from {schema}.inbox
where consumer = $1 and (seq < $2 or incarnation < $3) and state = 'applied' and aggregate is not null
order by aggregate limit $4
