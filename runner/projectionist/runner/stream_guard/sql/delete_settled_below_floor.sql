-- Removes what the floor has passed. In the transaction that raised it.
delete from {schema}.settled_batches s using {schema}.floors f
where s.consumer = $1 and f.consumer = $1 and f.durable = $2
    and (s.incarnation < f.incarnation or (s.incarnation = f.incarnation and s.highest <= f.floor))
