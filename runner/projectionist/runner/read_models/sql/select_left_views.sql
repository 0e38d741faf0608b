-- Those of these views that have left their set: no build may bring them back.
select name, state from {schema}.views where number = any($1::integer[]) and state in ('detached', 'retired') order by number
