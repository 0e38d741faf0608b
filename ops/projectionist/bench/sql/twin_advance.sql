-- Statement 11 of the twin: where each aggregate stands now.
insert into {schema}.positions (consumer, aggregate, version, seq)
select $1, aggregate, version, seq from unnest($2::text[], $3::bigint[], $4::bigint[]) as moved (aggregate, version, seq)
on conflict (consumer, aggregate) do update set version = excluded.version, seq = excluded.seq
