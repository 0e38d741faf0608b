-- Who was shown the content of which things, and why.
insert into {schema}.audit (who, action, object, reason, detail)
select $1, 'reveal', shown.object, $2, '{}' from unnest($3::text[]) as shown (object)
