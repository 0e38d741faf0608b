-- Claims aggregates that are due, gaps apart, passing over what others have claimed, unless their lease is over. A
-- transaction that does this claims nothing else: skipping locked rows keeps to no order of locks.
with open as (
    select p.aggregate, p.owner as before from {schema}.positions p
    where p.consumer = $1 and p.head <> 'gap' and p.due <= clock_timestamp() and (
        p.owner is null or p.owner = $2 or not exists (
            select from {schema}.runners r where r.number = p.owner and r.leased_until > clock_timestamp()
        )
    )
    order by p.due limit $3
    for update of p skip locked
)
update {schema}.positions p set owner = $2
from open where p.consumer = $1 and p.aggregate = open.aggregate
returning p.aggregate, coalesce(open.before <> $2, false) as taken
