-- Nor is what it left out needed.
delete from {schema}.build_apart where build = $1
