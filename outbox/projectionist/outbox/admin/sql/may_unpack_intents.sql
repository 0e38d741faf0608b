-- Whether there are staged intents that this role may unpack; who looks alone leaves them to the relay.
select exists (select from {schema}.staged_intents where refused is null) and has_table_privilege('{schema}.staged_intents', 'delete') and has_table_privilege('{schema}.outbox', 'insert')
