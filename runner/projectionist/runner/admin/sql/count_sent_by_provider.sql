-- How many intents of an aggregate ($1) or an event ($2, $3) each provider has carried out, or may have.
select t.provider, count(*) as sent from {schema}.intents t
where (t.aggregate = $1 or t.source = $2 and t.id = $3) and t.first_started is not null
group by t.provider order by t.provider
