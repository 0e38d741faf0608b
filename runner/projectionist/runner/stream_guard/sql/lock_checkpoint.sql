-- Keeps others from writing this floor, or from joining what lies above it, until the transaction ends.
select floor from {schema}.floors where consumer = $1 and durable = $2 for update
