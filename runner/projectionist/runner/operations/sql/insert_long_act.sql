-- Puts a long act on record that its owner carries out; one row: its number.
-- The same one that nobody carries out any more ($6: since so many seconds) has ended with that, and says so ($7).
with begun_again as (
    update {schema}.operations set ended = clock_timestamp(), outcome = 'stopped', note = $7
    where ended is null and kind = $1 and chosen = $2::text::jsonb
        and (owner is null or beat < clock_timestamp() - $6::float8 * interval '1 second')
)
insert into {schema}.operations (kind, chosen, who, reason, rate, patience_s, owner, epoch)
values ($1, $2::text::jsonb, $3, $4, 0, 0, $5, 1)
returning number
