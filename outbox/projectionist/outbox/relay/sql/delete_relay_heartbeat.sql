-- Records that this relay has stopped.
delete from {schema}.relays where instance = $1
