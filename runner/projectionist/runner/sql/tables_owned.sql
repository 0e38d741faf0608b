-- Which consumer the live tables belong to, by their public names.
select t.name, c.name as consumer
from {schema}.generations g
join {schema}.consumers c on c.number = g.consumer and c.generation = g.generation
cross join lateral jsonb_object_keys(g.tables) as t (name)
