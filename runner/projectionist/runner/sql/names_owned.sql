-- Which consumer the names of read models belong to.
select o.name, c.name as consumer from {schema}.own_names o join {schema}.consumers c on c.number = o.consumer
