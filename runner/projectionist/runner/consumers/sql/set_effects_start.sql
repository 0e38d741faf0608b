-- The effects mark of a consumer's live views: set once, at the first run.
update {schema}.views v set effects_incarnation = c.incarnation, effects_mark = $2
from {schema}.consumers c
where c.number = $1 and v.consumer = c.number and v.effects_mark is null and v.state = 'live'
