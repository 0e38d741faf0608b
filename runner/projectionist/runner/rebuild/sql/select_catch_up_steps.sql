-- The next steps of a round, and where the shadow stands with their aggregates.
select s.n, s.aggregate, s.version, s.seq, coalesce(b.version, $5) as at
from {schema}.build_steps s
left join {schema}.build_positions b on b.build = $4 and b.aggregate = s.aggregate
where s.build = $1 and s.n > $2
order by s.n limit $3
