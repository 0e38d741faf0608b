-- Ends the lease at once, for its holder alone; the row stays, so that the next epoch is a higher one.
update {schema}.leases set expires_at = '-infinity' where name = $1 and epoch = $2
