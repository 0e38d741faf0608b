-- Looks for names in these schemas: until the transaction, or the savepoint, is over ($2), or from now on.
select pg_catalog.set_config('search_path', $1, $2)
