-- How many processes run a consumer, as far as their heartbeats say.
select count(*) from {schema}.runners
where consumer = $1 and stopped is null and beat > clock_timestamp() - $2::float8 * interval '1 second'
