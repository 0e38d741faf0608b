-- Plans a round: which events bring every marked aggregate to where live stands at this moment, in the order to fold.
-- A row without a sequence says that its aggregate is there.
insert into {schema}.build_steps (build, n, aggregate, version, seq)
select $1, row_number() over (order by rank, aggregate, version, seq nulls last), aggregate, version, seq
from (
    select aggregate, version, seq,
        max(coalesce(seq, 0)) over (partition by aggregate order by version, seq nulls last) as rank
    from (
        select p.aggregate, i.version, i.seq
        from (select distinct mark from {schema}.dirty_marks where consumer = $2 and slot = any($3::smallint[])) d
        join {schema}.positions p on p.consumer = $2 and p.aggregate = d.mark
        left join {schema}.build_positions b on b.build = $5 and b.aggregate = p.aggregate
        join {schema}.inbox i on i.consumer = $2 and i.aggregate = p.aggregate
            and i.version > coalesce(b.version, $6) and i.version <= p.version
            and i.state in ('applied', 'ignored') and i.incarnation = $4
        union all
        select p.aggregate, p.version, null
        from (select distinct mark from {schema}.dirty_marks where consumer = $2 and slot = any($3::smallint[])) d
        join {schema}.positions p on p.consumer = $2 and p.aggregate = d.mark
        left join {schema}.build_positions b on b.build = $5 and b.aggregate = p.aggregate
        where p.version <> coalesce(b.version, $6)
    ) needed
) ranked
