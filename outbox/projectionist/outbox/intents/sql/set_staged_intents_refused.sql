-- Puts the first row of wishes aside, which could not be opened for the reason $1.
update {schema}.wishes set refused = $1
where seq = (select min(seq) from {schema}.wishes where refused is null)
returning seq, consumer, intents
