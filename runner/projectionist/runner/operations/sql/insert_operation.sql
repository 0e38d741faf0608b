-- Begins an operation that its owner carries out at once; one row: its number.
insert into {schema}.operations (kind, chosen, who, reason, rate, patience_s, owner, epoch)
values ($1, $2::text::jsonb, $3, $4, $5, $6, $7, 1)
returning number
