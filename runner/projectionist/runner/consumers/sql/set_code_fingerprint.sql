-- From here on batches of other code stop as superseded. Under the exclusive barrier.
with remembered as (
    insert into {schema}.code_fingerprints (consumer, code)
    select number, code from {schema}.consumers where number = $1
    union select $1, $2
    on conflict (consumer, code) do update set adopted = clock_timestamp()
)
update {schema}.consumers set code = $2, epoch = epoch + 1 where number = $1
