-- True where the intent of this key is the same: content, class, destination and order.
select hash = $2 and class = $3 and provider = $4 and destination = $5 and ordering is not distinct from $6
    and aggregate is not distinct from $7
from {schema}.intents where key = $1
