-- Up to which stream sequence the inbox may lack rows of events that were settled.
select max(f.purged) from {schema}.floors f join {schema}.consumers c on c.number = f.consumer
where f.consumer = $1 and f.incarnation = c.incarnation
