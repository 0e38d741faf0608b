-- A decision about what stands in quarantine.
insert into {schema}.decisions (consumer, incarnation, seq, kind, headers, data, hash, actor, reason)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
returning number
