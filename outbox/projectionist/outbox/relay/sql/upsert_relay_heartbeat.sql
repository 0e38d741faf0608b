-- Records that this relay works, for these providers; deletes those that have been silent for a day.
with gone as (
    delete from {schema}.relays where beat < clock_timestamp() - interval '1 day' and instance <> $1
)
insert into {schema}.relays (instance, host, pid, providers) values ($1, $2, $3, $4)
on conflict (instance) do update set providers = excluded.providers, beat = clock_timestamp()
