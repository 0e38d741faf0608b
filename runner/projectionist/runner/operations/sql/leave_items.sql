-- Leaves the rest of a group alone.
update {schema}.operation_items set state = 'left' where operation = $1 and alike = $2 and state = 'waiting'
