-- What came out of quarantine has been settled as an event, and is accounted for there.
update {schema}.quarantine set state = 'released', due = null
where consumer = $1 and incarnation = $2 and seq = any($3::bigint[])
