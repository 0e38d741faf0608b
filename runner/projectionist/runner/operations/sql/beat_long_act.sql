-- Says how far a long act is, which is its sign of life; none if it is not carried out under this epoch any more.
-- The same one from before that has ended without a word has ended with that: it gives no sign since this one began ($7: for so
-- many seconds), or gave some and none for longer ($8).
with begun_again as (
    update {schema}.operations before set ended = clock_timestamp(), outcome = 'stopped', note = 'begun again by ' || this.who
    from {schema}.operations this
    where this.number = $1 and this.epoch = $2 and this.ended is null
        and before.ended is null and before.number < $1 and before.kind = this.kind and before.chosen = this.chosen
        and before.beat < clock_timestamp()
            - case when before.beat < this.began then $7::float8 else $8::float8 end * interval '1 second'
)
update {schema}.operations set beat = clock_timestamp(), phase = $3, matched = $4, done = $5, per_s = $6
where number = $1 and epoch = $2 and ended is null
returning stop_asked_by, stop_reason
