-- Leaves the rest of a group alone: its items stay as they are.
update {schema}.operation_samples set left_alone = items - tried - done - failed - refused, open = tried > 0
where operation = $1 and alike = $2 and open
