-- Takes tokens from the buckets of destinations, as many as are there; `granted` says how many, `next_s` when one is due.
insert into {schema}.buckets as b (provider, destination, tokens, granted, refilled)
select $1, want.destination, $5::float8 - least(want.n, $5), least(want.n, $5::float8), statement_timestamp()
from unnest($2::text[], $3::integer[]) as want (destination, n)
order by want.destination
on conflict (provider, destination) do update
set (tokens, granted, refilled) = (
    select level.tokens - least(floor(level.tokens), excluded.granted), least(floor(level.tokens), excluded.granted),
        greatest(b.refilled, statement_timestamp())
    from (
        select least(
            $5::float8,
            b.tokens + $4::float8 * greatest(extract(epoch from statement_timestamp() - b.refilled)::float8, 0)
        ) as tokens
    ) as level
)
returning destination, granted, greatest(1 - tokens, 0) / $4::float8 as next_s
