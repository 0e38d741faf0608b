-- Removes up to $3 cancels of these consumers that were applied before $2: their intents are settled since then. Counts them.
with gone as (
    delete from {schema}.cancels where seq in (
        select seq from {schema}.cancels
        where done < $2::timestamptz and consumer = any ($1::integer[])
        order by seq
        limit $3
    )
    returning seq
)
select count(*) from gone
