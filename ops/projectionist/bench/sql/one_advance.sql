-- One transaction an event: moves a position by one; the command tag says whether it stood where it should.
insert into {schema}.positions (consumer, aggregate, version, seq) values ($1, $2, $3, $4)
on conflict (consumer, aggregate) do update set version = excluded.version, seq = excluded.seq
where positions.version = excluded.version - 1
