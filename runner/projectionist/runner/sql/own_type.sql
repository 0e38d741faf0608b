-- The type of aggregate whose ids are row keys; the first one seen stays.
update {schema}.consumers set own_type = coalesce(own_type, $2) where number = $1 returning own_type
