-- Whether this role may unpack staged intents; who looks alone leaves them to the relay.
select has_table_privilege('{schema}.staged_intents', 'delete') and has_table_privilege('{schema}.outbox', 'insert')
