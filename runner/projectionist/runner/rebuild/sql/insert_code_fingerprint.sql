-- The code that runs from here on: what is in this table and is not the present one does not start by itself.
insert into {schema}.code_fingerprints (view, code) values ($1, $2)
on conflict (view, code) do update set adopted = clock_timestamp()
