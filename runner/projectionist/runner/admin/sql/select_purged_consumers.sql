-- The consumers of which retention has removed rows of settled events from the inbox.
select c.name from {schema}.floors f join {schema}.consumers c on c.number = f.consumer where f.purged > 0 order by c.name
