-- Marks a parked event as decided against: its aggregate steps over it when its turn comes.
update {schema}.parked set discarded = true where consumer = $1 and source = $2 and id = $3
