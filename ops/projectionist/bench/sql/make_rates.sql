-- A table of others, for a variant that looks rows up.
do '
    begin
        create table {schema}.bench_rates (band bigint primary key, share bigint not null);
        insert into {schema}.bench_rates select n, n % 25 from generate_series(0, 999) as n;
    end
'
