-- Providers that open intents name, and the relay does not have.
with recursive named (provider) as (
    (select i.provider from {schema}.intents i where i.open order by i.provider limit 1)
    union all
    select next.provider
    from named
    cross join lateral (
        select i.provider from {schema}.intents i
        where i.open and i.provider > named.provider order by i.provider limit 1
    ) as next
)
select provider from named where provider <> all ($1::text[])
