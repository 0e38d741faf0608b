-- One applier at a time per schema; ends with the transaction, so that it works behind a pooler too.
select pg_catalog.pg_advisory_xact_lock($1)
