-- How many intents of these events of a consumer are not settled.
select count(*) from unnest($2::text[], $3::text[]) as e (source, id)
join {schema}.intents t on t.consumer = $1 and t.source = e.source and t.id = e.id
where t.state = 'open'
