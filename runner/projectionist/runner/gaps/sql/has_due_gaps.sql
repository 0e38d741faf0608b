-- One row where missing versions of any aggregate are to be looked for now.
select true from {schema}.positions where consumer = $1 and head = 'gap' and due <= clock_timestamp() limit 1
