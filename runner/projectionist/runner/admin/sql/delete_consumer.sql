-- Removes all that is known of a consumer ($1), whose intents are settled and whose tables are gone; its names stay reserved.
with named as (
    insert into {schema}.retired_consumers (name, consumer, who, reason)
    select name, $1, $2, $3 from {schema}.consumers where number = $1
    union select n.name, $1, $2, $3 from {schema}.views v cross join lateral unnest(array[v.name, v.key_name]) as n (name)
    where v.consumer = $1
    on conflict (name) do nothing
), attempts as (
    delete from {schema}.attempts where intent in (select seq from {schema}.intents where consumer = $1)
), intents as (delete from {schema}.intents where consumer = $1
), scheduled as (delete from {schema}.schedule where consumer = $1
), cancels as (delete from {schema}.cancels where consumer = $1
), inbox as (delete from {schema}.inbox where consumer = $1
), duplicates as (delete from {schema}.duplicates where consumer = $1
), positions as (delete from {schema}.positions where consumer = $1
), parked as (delete from {schema}.parked where consumer = $1
), waiting as (delete from {schema}.parked_counts where consumer = $1
), held as (delete from {schema}.held_counts where consumer = $1
), minutes as (delete from {schema}.minute_counts where consumer = $1
), quarantine as (delete from {schema}.quarantine where consumer = $1
), incidents as (delete from {schema}.incidents where consumer = $1
), decisions as (delete from {schema}.decisions where consumer = $1
), counters as (delete from {schema}.counters where consumer = $1
), codes as (delete from {schema}.code_fingerprints where view in (select number from {schema}.views where consumer = $1)
), names as (delete from {schema}.names where view in (select number from {schema}.views where consumer = $1)
), floors as (delete from {schema}.floors where consumer = $1
), settled as (delete from {schema}.settled_batches where consumer = $1
), tried as (delete from {schema}.crash_marks where consumer = $1
), dirty as (delete from {schema}.dirty_marks where consumer = $1
), runners as (delete from {schema}.runners where consumer = $1
), breakers as (delete from {schema}.consumer_breakers where consumer = $1
), progress as (delete from {schema}.build_progress where build in (select number from {schema}.builds where consumer = $1)
), apart as (delete from {schema}.build_excluded where build in (select number from {schema}.builds where consumer = $1)
), made as (delete from {schema}.build_views where build in (select number from {schema}.builds where consumer = $1)
), builds as (delete from {schema}.builds where consumer = $1
), generations as (delete from {schema}.generations where view in (select number from {schema}.views where consumer = $1)
), views as (delete from {schema}.views where consumer = $1
)
delete from {schema}.consumers where number = $1
