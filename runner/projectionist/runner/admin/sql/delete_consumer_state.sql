-- Takes away all that a consumer has settled and where it stands: it begins anew. Nothing of it was purged then.
with gone_inbox as (
    delete from {schema}.inbox where consumer = $1
),
gone_duplicates as (
    delete from {schema}.duplicates where consumer = $1
),
gone_positions as (
    delete from {schema}.positions where consumer = $1
),
gone_parked as (
    delete from {schema}.parked where consumer = $1
),
gone_counts as (
    delete from {schema}.parked_counts where consumer = $1
),
gone_held as (
    delete from {schema}.held_counts where consumer = $1
),
gone_tried as (
    delete from {schema}.crash_marks where consumer = $1
),
gone_dirty as (
    delete from {schema}.dirty_marks where consumer = $1
),
gone_settled as (
    delete from {schema}.settled_batches where consumer = $1
)
update {schema}.floors set purged = 0, purged_from = null where consumer = $1
