-- Which of these messages ($3) no batch has settled. One snapshot: what the floor has passed meanwhile is settled, and one
-- that is lower than it was ($4) is another stream's.
with f as (
    select floor, incarnation from {schema}.floors where consumer = $1 and durable = $2
), asked as (
    select seq from unnest($3::bigint[]) as seq where (select floor from f) between $4 and seq - 1
), held as (
    select s.lowest, s.highest, s.seqs from {schema}.settled_batches s join f on f.incarnation = s.incarnation
    where s.consumer = $1
        and s.highest >= (select min(seq) from asked) and s.lowest <= (select max(seq) from asked)
)
select seq from (
    select seq from asked
    where not exists (select from held where seqs is null and seq between lowest and highest)
    except
    select seq from held cross join unnest(seqs) as seq
) as missing
order by seq
