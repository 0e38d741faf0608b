-- Whether there are marks in the builder's slot.
select exists (
    select from {schema}.dirty_marks d join {schema}.consumers c on c.number = d.consumer where d.consumer = $1 and d.slot = 1 - c.slot
)
