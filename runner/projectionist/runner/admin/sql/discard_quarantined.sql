-- It is no event and never will be.
update {schema}.quarantine set state = 'discarded', due = null
where consumer = $1 and incarnation = $2 and seq = $3
