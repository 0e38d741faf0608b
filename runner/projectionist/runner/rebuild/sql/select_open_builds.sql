-- The builds that are open, of one consumer or of all: what each makes, how far it has come, and whether anybody builds.
select c.name as consumer, v.name as view, b.kind, t.generation, t.revision, b.phase, b.owner, b.started, b.partial,
    c.build is not null as is_marked, cardinality(b.finished) as finished, b.buckets,
    p.doing, p.done, p.expected, p.per_s, p.told, coalesce(p.rates, '{}') as rates,
    coalesce(l.owner = b.owner and l.expires_at > clock_timestamp(), false) as is_built
from {schema}.builds b
join {schema}.build_views t on t.build = b.number
join {schema}.views v on v.number = t.view
join {schema}.consumers c on c.number = b.consumer
left join {schema}.build_progress p on p.build = b.number
left join {schema}.leases l on l.name = 'build:' || b.consumer
where b.ended is null and ($1::text is null or c.name = $1)
order by c.name, t.view
