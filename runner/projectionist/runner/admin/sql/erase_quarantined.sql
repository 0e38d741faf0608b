-- Takes the content out of quarantine: an aggregate's ($2) or an event's ($3, $4). What stood there is discarded; a decision
-- keeps that, and that what came out with another content had it once.
with emptied as (
    update {schema}.quarantine q
    set state = case when q.state = 'quarantined' then 'discarded' else q.state end,
        headers = null, data = null, detail = 'erased', due = null
    where q.consumer = $1 and (q.aggregate = $2 or q.source = $3 and q.id = $4)
        and (q.state = 'quarantined' or q.headers is not null or q.data is not null)
    returning q.incarnation, q.seq, q.hash
), amended as (
    update {schema}.decisions d set headers = null, data = null
    from emptied e where d.consumer = $1 and d.incarnation = e.incarnation and d.seq = e.seq
), decided as (
    insert into {schema}.decisions (consumer, incarnation, seq, kind, hash, actor, reason)
    select $1, incarnation, seq, 'erase', hash, $5, $6 from emptied order by incarnation, seq
)
select count(*) from emptied
