-- A decision: an act that rebuild and verify repeat; never changed, never purged.
insert into {schema}.decisions (consumer, kind, aggregate, version, upto, source, id, data, hash, actor, reason)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
