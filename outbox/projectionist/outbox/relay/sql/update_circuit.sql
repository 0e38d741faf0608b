-- Writes a circuit, if it is still in the epoch it was read in.
update {schema}.circuits
set state = $4, epoch = $5, failures = $6, openings = $7, until = to_timestamp($8), pause_s = $9,
    changed = clock_timestamp()
where provider = $1 and destination = $2 and epoch = $3
returning epoch
