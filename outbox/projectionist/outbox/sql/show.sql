-- Everything about one intent but its history.
select i.*, c.name as consumer_name, b.state as circuit, b.held
from {schema}.intents i
left join {schema}.breakers b on b.provider = i.provider and b.destination = i.destination
left join {schema}.consumers c on c.number = i.consumer
where i.key = $1
