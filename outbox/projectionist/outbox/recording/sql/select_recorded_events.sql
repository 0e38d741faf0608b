-- Which version an aggregate has, and what stands under the ids of a call that wrote nothing: its version, and whether it is
-- the same event. Its parameter is the document of the call; the answer is one, too.
with given as materialized (
    select cast($1 as text)::jsonb as d
)
select json_build_object(
    'version', coalesce((
        select r.version from {schema}.recorded_aggregates r, given
        where r.stream = d ->> 'stream' and r.aggregate = d ->> 'aggregate'
    ), 0),
    'standing', (
        select json_agg(
            case when i.key is not null then json_build_object(
                'version', i.version,
                'same', i.class = e.class and i.aggregate = d ->> 'aggregate'
                    and i.hash = substr(sha256(convert_to(e.body, 'UTF8')), 1, 16)
            ) end
            order by e.place
        )
        from given
        cross join lateral rows from (
            jsonb_array_elements_text(d -> 'keys'), jsonb_array_elements_text(d -> 'classes'),
            jsonb_array_elements_text(d -> 'bodies')
        ) with ordinality as e (key, class, body, place)
        left join {schema}.intents i on i.key = e.key
    )
)::text
