-- Puts the first row of staged intents aside, which could not be unpacked for the reason $1.
update {schema}.wishes set refused = $1
where seq = (select min(seq) from {schema}.wishes where refused is null)
returning seq, consumer, intents
