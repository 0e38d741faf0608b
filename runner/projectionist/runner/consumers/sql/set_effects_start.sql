-- The effects mark: set once, at the first run.
update {schema}.consumers set effects_incarnation = incarnation, effects_mark = $2
where number = $1 and effects_mark is null
