-- From here on batches of other code than this view's stop as superseded. Under the exclusive barrier.
with remembered as (
    insert into {schema}.code_fingerprints (view, code)
    select number, code from {schema}.views where number = $1
    union select $1, $2
    on conflict (view, code) do update set adopted = clock_timestamp()
), adopted as (
    update {schema}.views set code = $2, looks_up = $3 where number = $1 returning consumer
)
update {schema}.consumers set epoch = epoch + 1 where number = (select consumer from adopted)
