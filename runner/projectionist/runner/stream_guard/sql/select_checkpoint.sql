-- What is known of a consumer's stream and durable; how many other processes run it ($4: our own number, $3: silent for so
-- long is dead); and whether the last event that we know to be settled ($5, $6; at sequence $7) is, or was until retention
-- removed it.
select transaction_timestamp() as at, c.number, c.epoch, c.incarnation, s.created, f.floor, f.floor_hash, f.floor_stored, f.top, f.top_hash, f.top_stored,
    f.seen, f.deliveries, f.durable_created, f.timeline as timeline_then,
    case when not pg_is_in_recovery()
        then ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer end as timeline,
    (select count(*) from {schema}.runners r
        where r.consumer = c.number and r.stopped is null and r.number is distinct from $4
            and r.beat > clock_timestamp() - $3::float8 * interval '1 second') as peers,
    $6::text is null or $7::bigint <= f.purged or exists (
        select from {schema}.inbox i where i.consumer = c.number and i.source = $5 and i.id = $6
    ) as witnessed
from {schema}.consumers c
left join {schema}.streams s on s.name = c.stream and s.incarnation = c.incarnation
left join {schema}.floors f on f.consumer = c.number and f.durable = $2 and f.incarnation = c.incarnation
where c.name = $1
