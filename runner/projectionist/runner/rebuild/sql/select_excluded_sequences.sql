-- Sequences that the bulk leaves out.
select seq from {schema}.build_apart where build = $1
