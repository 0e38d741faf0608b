-- Puts a long act on record that its owner carries out; one row: its number.
insert into {schema}.operations (kind, chosen, who, reason, rate, patience_s, owner, epoch)
values ($1, $2::text::jsonb, $3, $4, 0, 0, $5, 1)
returning number
