-- What a consumer is called, or was until it was retired.
select coalesce(
    (select name from {schema}.consumers where number = $1), (select min(name) from {schema}.retired_consumers where consumer = $1)
)
