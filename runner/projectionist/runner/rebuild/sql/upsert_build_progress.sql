-- How far the builder has come with what it does.
insert into {schema}.build_progress as p (build, doing, done, expected, per_s)
select number, $3, $4, $5, $6 from {schema}.builds where consumer = $1 and epoch = $2 and ended is null
on conflict (build) do update
set doing = excluded.doing, done = excluded.done, expected = excluded.expected, per_s = excluded.per_s, told = excluded.told
