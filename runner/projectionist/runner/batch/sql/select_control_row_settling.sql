-- What holds for this batch, as `select_control_row` says it; and on record, which messages of the stream it settles: those of $4, or
-- all from $2 to $3. `aside`: those of them that were discarded, or that PostgreSQL has refused or a person corrected: they come
-- out of quarantine, or not at all.
with settling as (
    insert into {schema}.settled_batches (consumer, incarnation, lowest, highest, seqs)
    select number, incarnation, $2, $3, $4 from {schema}.consumers where number = $1
)
select c.epoch, c.incarnation, c.paused, c.build, c.slot, c.repeats, v.number as view, v.generation, v.code, v.revision,
    v.effects_incarnation, v.effects_mark, v.own_type, v.own_since, b.state as breaker, b.runner as prober, b.reason as trouble,
    c.aside
from (
    select n.*, array(
        select q.seq from {schema}.quarantine q
        where q.consumer = $1 and q.incarnation = n.incarnation and $4::bigint[] is null and q.seq between $2 and $3
            and (q.state = 'discarded' or q.state = 'quarantined' and (q.reason = 'refused' or q.edit is not null))
        union all
        select q.seq from {schema}.quarantine q
        where q.consumer = $1 and q.incarnation = n.incarnation and q.seq = any($4)
            and (q.state = 'discarded' or q.state = 'quarantined' and (q.reason = 'refused' or q.edit is not null))
    ) as aside
    from {schema}.consumers n
    where n.number = $1
    offset 0
) c
left join {schema}.views v on v.consumer = c.number and v.state = 'live'
left join {schema}.consumer_breakers b on b.consumer = c.number and b.state <> 'closed'
order by v.number
