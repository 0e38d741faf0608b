-- Statement 5 of the twin: placeholders, in order, for aggregates this process has not seen.
insert into {schema}.positions (consumer, aggregate)
select $1, aggregate from unnest($2::text[]) as seen (aggregate)
on conflict do nothing
