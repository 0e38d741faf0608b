-- Whether any of these aggregates has got over the event that failed.
select exists (
    select from {schema}.positions
    where consumer = $1 and aggregate = any($2::text[]) and head not in ('failed', 'waiting')
) as mended, exists (
    select from {schema}.positions
    where consumer = $1 and aggregate = any($2::text[]) and head = 'failed'
) as open
