-- A consumer begins anew: effects from here on, and what was decided is obeyed. Whose ids are keys of its rows is found out
-- again. Under the exclusive barrier.
with emptied as (
    update {schema}.views v
    set effects_incarnation = case when v.state = 'live' then c.incarnation else v.effects_incarnation end,
        effects_mark = case when v.state = 'live' then $2 else v.effects_mark end, own_type = null, own_since = null
    from {schema}.consumers c where c.number = $1 and v.consumer = c.number
)
update {schema}.consumers c
set epoch = epoch + 1, repeats = exists (select from {schema}.decisions d where d.consumer = c.number)
where number = $1
