-- What came out of quarantine comes out of it again, as it was corrected, and what was refused is tried; of earlier streams
-- of the name nothing comes again.
update {schema}.quarantine set state = 'quarantined', due = clock_timestamp()
where consumer = $1 and incarnation = $2 and (state = 'released' or state = 'quarantined' and reason = 'refused')
