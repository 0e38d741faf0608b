-- Known identities that came under another stream sequence, in stream order.
insert into {schema}.duplicates (consumer, incarnation, seq, source, id)
select $1, $2, seq, source, id from unnest($3::bigint[], $4::text[], $5::text[]) as again (seq, source, id)
on conflict do nothing
returning seq
