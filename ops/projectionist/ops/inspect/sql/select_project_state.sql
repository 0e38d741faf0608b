-- Where all stands, at one moment and in one answer: each part is a statement that is also asked alone. $1: add counters up too; $2: so
-- many intents are counted at most; $3: for how long a sign of life says that somebody carries an operation out.
select
    (select coalesce(json_agg(one), '[]') from ({runner/select_status($1)}) one) as consumers,
    (select coalesce(json_agg(one), '[]') from ({runner/select_process_problems}) one) as setbacks,
    (select coalesce(json_agg(one), '[]') from ({runner/select_shared_trouble}) one) as shared,
    (select coalesce(json_agg(one), '[]') from ({runner/select_operations(null, true, null, 50, $3)}) one) as operations,
    (select coalesce(json_agg(one), '[]') from ({outbox/select_relays}) one) as relays,
    (select coalesce(json_agg(one), '[]') from ({outbox/select_outbox_metrics($2)}) one) as unsettled,
    (select coalesce(json_agg(one), '[]') from ({outbox/select_circuit_metrics}) one) as circuits,
    (select coalesce(json_agg(one), '[]') from ({outbox/select_schedule_metrics($2)}) one) as scheduled
