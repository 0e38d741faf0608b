-- Whether this role may remove acts from the audit trail.
select has_table_privilege('{schema}.audit', 'delete') and has_table_privilege('{schema}.audit_chain', 'delete')
