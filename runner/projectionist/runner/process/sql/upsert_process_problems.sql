-- What process $1 cannot do now, all of it, for $4 seconds to come; and no more what processes say that are gone.
with told as (
    select * from unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[]) t (consumer, what, state, reason, remedy)
), over as (
    delete from {schema}.setbacks s
    where case when s.instance = $1 then not exists (
        select from told t where t.consumer = s.consumer and t.what = s.what
    ) else s.until < clock_timestamp() end
)
insert into {schema}.setbacks as s (instance, host, pid, until, consumer, what, state, reason, remedy)
select $1, $2, $3, clock_timestamp() + $4::float8 * interval '1 second', t.* from told t
on conflict (instance, consumer, what) do update
set state = excluded.state, reason = excluded.reason, remedy = excluded.remedy, until = excluded.until,
    since = case when s.state = excluded.state then s.since else clock_timestamp() end
