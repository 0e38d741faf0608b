-- Writes an applied migration into the ledger, in the migration's own transaction.
insert into {schema}.migrations (number, name, checksum, release) values ($1, $2, $3, $4)
