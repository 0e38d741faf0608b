-- The headers that each live process of a consumer reads. $2: silent for so long is dead or frozen.
select host || ':' || pid as process, headers::text
from {schema}.runners
where consumer = $1 and stopped is null and headers is not null and beat > clock_timestamp() - $2::float8 * interval '1 second'
order by number
