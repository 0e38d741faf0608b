-- Joins what has piled up above a floor that stands for long: where more than $2 rows of fewer than $3 messages have come
-- together, the lowest of those that hold $4 messages together, and the runs between them, become runs of at least $3 messages,
-- and lists of so many of what stands apart; how many small rows there were, or 0 where no more are to be joined. Its row is
-- locked, which keeps two processes from doing this at once.
with small as (
    select ctid, lowest, highest, count(*) over () as many,
        sum(coalesce(cardinality(seqs), highest - lowest + 1)) over (order by lowest, ctid) as upto
    from {schema}.settled_batches
    where consumer = $1 and coalesce(cardinality(seqs), highest - lowest + 1) < $3
), picked as (
    select ctid, lowest, highest from small where many > $2 and upto <= $4
), bounds as (
    select min(lowest) - 1 as lowest, max(highest) + 1 as highest from picked having count(*) > 0
), gone as (
    delete from {schema}.settled_batches s using bounds b
    where s.consumer = $1 and (
        s.ctid in (select ctid from picked)
        or (s.seqs is null and s.highest - s.lowest + 1 >= $3 and s.highest >= b.lowest and s.lowest <= b.highest)
    )
    returning s.incarnation, s.lowest, s.highest, s.seqs
), parts as (
    select incarnation, lowest, highest from gone where seqs is null and highest - lowest + 1 >= $3
    union
    select incarnation, seq, seq from gone cross join unnest(seqs) as seq
    union
    select incarnation, seq, seq from gone cross join generate_series(lowest, highest) as seq
    where seqs is null and highest - lowest + 1 < $3
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
), sized as (
    select incarnation, lowest as seq, min(lowest) over whole as lowest, max(highest) over whole as highest from numbered
    window whole as (partition by incarnation, run)
), apart as (
    select incarnation, seq, (row_number() over (partition by incarnation order by seq) - 1) / $3 as list
    from sized where highest - lowest + 1 < $3
), joined as (
    insert into {schema}.settled_batches (consumer, incarnation, lowest, highest, seqs)
    select distinct $1::integer, incarnation, lowest, highest, null::bigint[] from sized where highest - lowest + 1 >= $3
    union all
    select $1, incarnation, min(seq), max(seq), array_agg(seq order by seq) from apart group by incarnation, list
)
select coalesce(max(many) filter (where many > $2 and upto > $4), 0) from small
