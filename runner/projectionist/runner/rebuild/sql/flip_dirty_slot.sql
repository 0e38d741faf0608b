-- Live batches write the other slot from here on; returns the one they have left. Under the exclusive barrier.
update {schema}.consumers set slot = 1 - slot where number = $1 returning 1 - slot as slot
