-- Which consumer the names of read models belong to, be it one that was retired.
select o.name, coalesce(c.name, (select min(r.name) from {schema}.retired_consumers r where r.consumer = o.consumer)) as consumer
from {schema}.own_names o left join {schema}.consumers c on c.number = o.consumer
