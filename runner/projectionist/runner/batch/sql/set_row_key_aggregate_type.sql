-- The type of aggregate whose ids are keys of a view's rows; the first one seen stays, with the event that decided it.
update {schema}.views
set own_type = coalesce(own_type, $2), own_since = case when own_type is null then $3 else own_since end
where number = $1
returning own_type
