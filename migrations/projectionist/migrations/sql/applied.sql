-- The migrations this database has seen, in order.
select number, name, checksum, release from {schema}.migrations order by number
