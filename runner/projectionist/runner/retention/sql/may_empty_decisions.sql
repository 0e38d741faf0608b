-- Whether this role may empty corrections, which is the owner's.
select has_table_privilege('{schema}.decisions', 'update')
