-- Puts the first row of staged intents aside, which could not be unpacked for the reason $1.
update {schema}.staged_intents set refused = $1
where seq = (select min(seq) from {schema}.staged_intents where refused is null)
returning seq, consumer, intents
