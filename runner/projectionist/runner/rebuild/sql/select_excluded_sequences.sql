-- Sequences that the bulk leaves out.
select seq from {schema}.build_excluded where build = $1
