-- Where stream and durable stand. Under the consumer's barrier, after its epoch was compared. In one incarnation of the
-- stream these numbers only rise: whoever heard the broker before the last writer did writes nothing.
-- $15: what the stream had taken until then is in it up to the top ($7); once that is settled ($16: it is already), the
-- consumer has caught up with that time.
-- $13: this word stands, whatever was there; under the exclusive barrier alone.
insert into {schema}.floors (
    consumer, durable, incarnation, floor, floor_hash, floor_stored, top, top_hash, top_stored, seen, deliveries,
    durable_created, acked, pending_seq, pending_at, timeline
)
select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $14, $7, $15,
    case when not pg_is_in_recovery()
        then ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer end
on conflict (consumer, durable) do update
set incarnation = excluded.incarnation, floor = excluded.floor, floor_hash = excluded.floor_hash,
    floor_stored = excluded.floor_stored, top = excluded.top, top_hash = excluded.top_hash,
    top_stored = excluded.top_stored, deliveries = excluded.deliveries, acked = excluded.acked,
    seen = case when $13 or floors.incarnation <> excluded.incarnation then excluded.seen
        else greatest(floors.seen, excluded.seen) end,
    purged = case when floors.incarnation = excluded.incarnation then floors.purged else 0 end,
    purged_from = case when floors.incarnation = excluded.incarnation or floors.purged_from is null then floors.purged_from
        else 0 end,
    caught_up = case
        when $13 or floors.incarnation <> excluded.incarnation then null
        when $16 then greatest(floors.caught_up, excluded.pending_at)
        when excluded.floor >= floors.pending_seq then greatest(floors.caught_up, floors.pending_at)
        else floors.caught_up end,
    pending_seq = case
        when $13 or floors.incarnation <> excluded.incarnation or excluded.floor >= floors.pending_seq
            or floors.pending_at is null then excluded.pending_seq
        else floors.pending_seq end,
    pending_at = case
        when $13 or floors.incarnation <> excluded.incarnation or excluded.floor >= floors.pending_seq
            or floors.pending_at is null then excluded.pending_at
        else floors.pending_at end,
    durable_created = excluded.durable_created, timeline = excluded.timeline, written = clock_timestamp()
where $13 or floors.incarnation <> excluded.incarnation
    or (
        floors.floor <= excluded.floor and floors.top <= excluded.top
        and (floors.deliveries <= excluded.deliveries or floors.durable_created is distinct from excluded.durable_created)
    )
