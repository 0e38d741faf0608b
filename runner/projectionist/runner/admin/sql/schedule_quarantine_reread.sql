-- Wants an entry of quarantine read again, with the edit of this number if it got one.
update {schema}.quarantine set due = clock_timestamp(), edit = coalesce($4, edit)
where consumer = $1 and incarnation = $2 and seq = $3
