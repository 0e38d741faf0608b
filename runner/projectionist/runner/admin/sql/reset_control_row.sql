-- A consumer begins anew: effects from here on, and what was decided is obeyed. Whose ids are keys of its rows is found out
-- again. Under the exclusive barrier.
update {schema}.consumers c
set epoch = epoch + 1, effects_incarnation = incarnation, effects_mark = $2, own_type = null,
    own_since = null, repeats = exists (select from {schema}.decisions d where d.consumer = c.number)
where number = $1
