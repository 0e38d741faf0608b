-- Statement 2 of the twin: whether this batch may go on.
select epoch, incarnation, generation, paused from {schema}.consumers where number = $1
