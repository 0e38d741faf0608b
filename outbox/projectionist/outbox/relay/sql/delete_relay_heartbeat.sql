-- This relay works no more.
delete from {schema}.relays where instance = $1
