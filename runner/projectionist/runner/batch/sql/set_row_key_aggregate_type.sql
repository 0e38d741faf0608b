-- The type of aggregate whose ids are row keys; the first one seen stays, with the event that decided it.
update {schema}.consumers
set own_type = coalesce(own_type, $2), own_since = case when own_type is null then $3 else own_since end
where number = $1
returning own_type
