-- Providers that open intents name, and the relay does not have.
with recursive named (provider) as (
    (select o.provider from {schema}.outbox o where o.open order by o.provider limit 1)
    union all
    select next.provider
    from named
    cross join lateral (
        select o.provider from {schema}.outbox o
        where o.open and o.provider > named.provider order by o.provider limit 1
    ) as next
)
select provider from named where provider <> all ($1::text[])
