-- Removes the acts of operators before $5 from the beginning of their chain, up to the first one that is younger, and leaves an
-- act that says where the chain begins now: $1 the place to look behind, $2 how many. The last place of those stays in the chain.
-- Where all that could go are such acts, nothing goes. Decisions are rows of their own, and stay. For the rest see purge_inbox.
with oldest as materialized (
    select c.place, c.hash, a.*
    from (select * from {schema}.audit_chain where place > $1::bigint order by place limit $2::integer) c
    cross join lateral (select * from {schema}.audit a where a.number = c.number offset 0) a
),
before as materialized (
    select o.* from oldest o where o.place < coalesce((select min(y.place) from oldest y where y.at >= $5::timestamptz), o.place + 1)
),
due as materialized (
    select b.* from before b where exists (select from before o where o.action <> 'purge-audit')
),
gone as (
    delete from {schema}.audit where not $3::boolean and number = any(array(select number from due))
),
unchained as (
    delete from {schema}.audit_chain where not $3 and place < (select max(place) from due)
),
anchor as (
    insert into {schema}.audit (who, action, object, reason, detail)
    select 'projectionist', 'purge-audit', 'audit', 'audit_retention_s', jsonb_build_object(
        'place', max(place), 'hash', encode((array_agg(hash order by place desc))[1], 'hex'), 'acts', count(*))
    from due where not $3 having count(*) > 0
),
kept as (
    insert into {schema}.archive (kind, content) select 'audit', to_jsonb(due) from due where $4::text = 'table' and not $3
)
select null::integer as consumer, count(*) as rows, max(place) as place,
    case when $4 = 'files' then string_agg(to_jsonb(due)::text, E'\n') end as lines
from due having count(*) > 0
