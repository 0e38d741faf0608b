-- Relays send for this owner from now on. All earlier intents are doubted, except where no owner was recorded before.
insert into {schema}.relay_owner as h (token) values ($1::text::uuid)
on conflict (one) do update
set token = excluded.token, epoch = h.epoch + 1, since = clock_timestamp(),
    doubted = coalesce((select max(seq) from {schema}.intents), 0)
where h.token <> excluded.token
returning doubted
