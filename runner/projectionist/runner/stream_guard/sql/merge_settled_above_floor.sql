-- Joins what has piled up above a floor that stands for long: where more than $2 rows of fewer than $3 messages have come
-- together, those, and the runs they belong to, become runs of at least $3 messages, and lists of so many of what stands
-- apart. In the transaction that wrote the floor, whose row keeps two processes from doing this at once.
with small as (
    select from {schema}.settled
    where consumer = $1 and coalesce(cardinality(seqs), highest - lowest + 1) < $3
    limit $2 + 1
), gone as (
    delete from {schema}.settled
    where consumer = $1 and (seqs is null or cardinality(seqs) < $3) and (select count(*) from small) > $2
    returning incarnation, lowest, highest, seqs
), parts as (
    select incarnation, lowest, highest from gone where seqs is null
    union
    select incarnation, seq, seq from gone cross join unnest(seqs) as seq
), bordered as (
    select incarnation, lowest, highest, coalesce(lowest > 1 + max(highest) over (
        partition by incarnation order by lowest, highest rows between unbounded preceding and 1 preceding
    ), true) as begins
    from parts
), numbered as (
    select incarnation, lowest, highest, count(*) filter (where begins) over (
        partition by incarnation order by lowest, highest
    ) as run
    from bordered
), runs as (
    select incarnation, min(lowest) as lowest, max(highest) as highest from numbered group by incarnation, run
), apart as (
    select incarnation, seq, (row_number() over (partition by incarnation order by seq) - 1) / $3 as list
    from runs cross join generate_series(lowest, highest) as seq
    where highest - lowest + 1 < $3
)
insert into {schema}.settled (consumer, incarnation, lowest, highest, seqs)
select $1, incarnation, lowest, highest, null from runs where highest - lowest + 1 >= $3
union all
select $1, incarnation, min(seq), max(seq), array_agg(seq order by seq) from apart group by incarnation, list
