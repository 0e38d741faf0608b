-- A generation that is kept, and the code it was last run by; until the end of the transaction nobody else drops it or
-- goes back to it.
select generation, revision, shape, code, build from {schema}.generations
where view = $1 and generation = $2 and state = 'kept' for update
