-- Whether the intent of this key is the same: its content, its class, and where it goes in which order.
select hash = $2 and class = $3 and provider = $4 and destination = $5 and ordering is not distinct from $6
    and aggregate is not distinct from $7
from {schema}.intents where key = $1
