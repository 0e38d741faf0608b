-- How many events stand in quarantine, and how many facts are open incidents, by the consumers they concern: what is the same for
-- several of them is one thing to act on.
select what, consumers, count(*) as n from (
    select 'quarantine' as what, array_agg(c.name order by c.name) as consumers
    from {schema}.quarantine q join {schema}.consumers c on c.number = q.consumer
    where q.state = 'quarantined' group by c.stream, q.incarnation, q.seq
    union all
    select 'incidents', array_agg(distinct c.name order by c.name)
    from {schema}.incidents i join {schema}.consumers c on c.number = i.consumer
    where i.closed is null
    group by c.stream, i.incarnation, i.seq, i.kind, case when i.kind like 'intent%' then i.number end
) each
group by what, consumers
order by what desc, consumers
