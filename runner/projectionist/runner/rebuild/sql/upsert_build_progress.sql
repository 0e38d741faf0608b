-- How far the builder has come with what it does. What it does goes on where it is the same, and more is done than before: then each
-- $7 seconds its rate is added to those there are, the last $8 of which are kept.
insert into {schema}.build_progress as p (build, doing, done, expected, per_s, measured, measured_done)
select number, $3, $4, $5, $6, clock_timestamp(), $4 from {schema}.builds where consumer = $1 and epoch = $2 and ended is null
on conflict (build) do update
set doing = excluded.doing, done = excluded.done, expected = excluded.expected, per_s = excluded.per_s, told = excluded.told,
    (rates, measured, measured_done) = (
        select case when due then (p.rates || (excluded.done - p.measured_done)::float4 / greatest(passed_s, 0.001)::float4)[cardinality(p.rates) + 2 - $8::integer:]
                else p.rates end,
            case when goes_on and not due then p.measured else excluded.told end,
            case when goes_on and not due then p.measured_done else excluded.done end
        from (
            select goes_on, passed_s, goes_on and passed_s >= $7::float8 as due
            from (
                select p.doing = excluded.doing and excluded.done >= p.measured_done as goes_on,
                    extract(epoch from excluded.told - coalesce(p.measured, p.told))::float8 as passed_s
            ) since
        ) pace
    )
