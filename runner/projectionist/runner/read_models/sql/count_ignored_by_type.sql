-- Events that were stepped over because no handler declared their type.
select type, sum(n)::bigint as n from {schema}.counters
where consumer = $1 and type = any($2::text[]) and outcome = 'ignored'
group by type order by type
