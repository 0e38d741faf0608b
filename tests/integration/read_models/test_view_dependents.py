"""What stands around a view survives a swap and a change of its table, or is refused by name."""

from __future__ import annotations

import asyncpg
import pytest
from tests.integration.consumers.test_evolve import grown
from tests.support import inspection
from tests.support.rebuilding import RebuildHarness
from tests.support.roles import plain
from tests.support.shop import OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.projections import Projection, on
from projectionist.runner.database.queries import RebuildError
from projectionist.runner.read_models.generations import sweep
from projectionist.runner.read_models.view_dependents import DependentViews

pytestmark = pytest.mark.asyncio

OPTIONS = "select reloptions from pg_class where oid = 'orders'::regclass"
INVOKER = ["security_barrier=true", "security_invoker=true"]


async def _filled(rebuilds: RebuildHarness) -> type:
    harness = rebuilds.harness
    orders: type = shop(harness.stream).Orders
    await harness.migrate(orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.publish(OrderPlaced("bob", 1), "o2", 1)
    await harness.settle(orders)
    return orders


def _spent(rebuilds: RebuildHarness, revision: int = 1, table: str = "spent") -> type:
    stream = rebuilds.harness.stream

    class Spent(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table=table,
        key="order_id",
        revision=revision,
    ):
        order_id: str
        cents: int = 0

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.cents = event.cents

    return Spent


def _retyped(rebuilds: RebuildHarness) -> type:
    stream = rebuilds.harness.stream

    class Spent(
        Projection,
        stream=stream.name,
        subjects=stream.subject("order", "{aggregate}"),
        table="spent",
        key="order_id",
        revision=2,
    ):
        order_id: str
        cents: str = ""

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.cents = str(event.cents)

    return Spent


async def test_the_options_of_a_view_survive_a_swap_and_a_new_column(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    await harness.pool.execute("alter view orders set (security_barrier = true, security_invoker = true)")

    await rebuilds.rebuild(orders)
    assert await harness.value(OPTIONS) == INVOKER

    await harness.migrate(grown(harness.stream))
    assert await harness.value("select carrier from orders where order_id = 'o1'") == "none"
    assert await harness.value(OPTIONS) == INVOKER


@pytest.mark.parametrize(
    "write",
    ["update orders set cents = 7", "delete from orders", "insert into orders (order_id) values ('o9')"],
)
async def test_nobody_writes_into_a_read_model_by_its_name(rebuilds: RebuildHarness, write: str) -> None:
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    for change in (None, lambda: rebuilds.rebuild(orders), lambda: harness.migrate(grown(harness.stream))):
        if change is not None:
            await change()
        with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match='view "orders"'):
            await harness.pool.execute(write)


async def test_a_view_is_planned_as_its_table_is(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    await _filled(rebuilds)
    wanted = """explain (costs off) select a.order_id from {} a join {} b using (order_id)
        where a.order_id = 'o1' for update of b"""
    async with harness.pool.acquire() as connection:
        await connection.execute("set enable_seqscan = off")
        table, view = [
            [row[0] for row in await connection.fetch(wanted.format(name, name))]
            for name in ("projectionist.orders__g1", "orders")
        ]
        await connection.execute("reset enable_seqscan")
    assert [line.split(" on ")[0] for line in view] == [line.split(" on ")[0] for line in table]


async def test_row_level_security_shows_a_reader_one_row_after_a_swap_and_the_way_back(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    async with plain(harness, "tenant") as url:
        await harness.pool.execute(
            """
            alter view orders set (security_invoker = true);
            grant usage on schema projectionist to tenant;
            grant select on orders, projectionist.orders__g1 to tenant;
            alter table projectionist.orders__g1 enable row level security;
            create policy own on projectionist.orders__g1 to tenant using (order_id = 'o1')"""
        )
        tenant = await asyncpg.connect(url)
        for back_to in (None, 1, 2):
            await rebuilds.rebuild(orders, back_to=back_to)
            assert [row["order_id"] for row in await tenant.fetch("select order_id from orders")] == ["o1"]
        await tenant.close()


async def test_a_view_of_another_owner_can_be_read_after_a_swap(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    async with plain(harness, "the_owner"), plain(harness, "the_reader") as url:
        await harness.pool.execute(
            """
            grant create, usage on schema public to the_owner; grant select on projectionist.orders__g1 to the_owner;
            alter view orders owner to the_owner; grant select on orders to the_reader; grant the_owner to the_runner"""
        )
        reader = await asyncpg.connect(url)
        assert len(await reader.fetch("select * from orders")) == 2
        await rebuilds.rebuild(orders)
        assert len(await reader.fetch("select * from orders")) == 2
        await reader.close()


AROUND = """
create table written (what text);
create function note() returns trigger language plpgsql as
    $$ begin insert into written values ('trigger'); return null; end $$;
grant insert on written to the_owner;
create trigger noted instead of update on spent for each row execute function note();
create rule deleted as on delete to spent do instead insert into written values ('rule');
comment on view spent is 'the view'; comment on column spent.order_id is 'the column';
alter view spent alter column cents set default 7;
alter view spent set (security_barrier = true);
grant select on spent to the_reader; grant update (order_id) on spent to the_reader;
alter view spent owner to the_owner;
"""
FACTS = """select obj_description('spent'::regclass), col_description('spent'::regclass, 1),
    (select array_agg(tgname::text) from pg_trigger where tgrelid = 'spent'::regclass),
    (select array_agg(rulename::text order by 1) from pg_rewrite where ev_class = 'spent'::regclass),
    (select array_agg(adnum) from pg_attrdef where adrelid = 'spent'::regclass), reloptions, relowner::regrole::text,
    has_table_privilege('the_reader', 'spent', 'select'),
    has_column_privilege('the_reader', 'spent', 'order_id', 'update'),
    has_table_privilege('the_reader', 'spent', 'update')
    from pg_class where oid = 'spent'::regclass"""


async def test_what_stands_around_a_view_that_is_made_anew_is_made_again(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    await harness.migrate(_spent(rebuilds))
    await harness.publish(OrderPlaced("ann", 100), "o1", 1)
    await harness.settle(_spent(rebuilds))
    async with plain(harness, "the_owner"), plain(harness, "the_reader"):
        await harness.pool.execute(
            "grant create, usage on schema public to the_owner; grant the_owner to the_runner"
        )
        await harness.pool.execute(AROUND)
        before = await harness.fetch(FACTS)

        await rebuilds.rebuild(_retyped(rebuilds))

        assert await harness.fetch(FACTS) == before
        await harness.pool.execute("update spent set cents = '1'; delete from spent")
        assert await harness.rows("written") == [("rule",), ("trigger",)]
        assert await harness.rows("spent") == [("o1", "100")]
        await harness.pool.execute("drop function note cascade")


POLICY = "create policy own on {g} using (cents > (select avg(cents) from {g}))"
TRIGGER = """
create function note() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger noted after insert on {g} for each row execute function note();"""


FUNCTION = """
create function listed() returns setof {g} language sql begin atomic select * from {g}; end"""


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("alter view spent rename column cents to money", "another statement has replaced it"),
        ("create or replace view spent as select * from {g} where cents > 5", "replaced it"),
        ("create or replace view spent as select *, 1 as more from {g}", "replaced it"),
        (POLICY, "policy own"),
        (TRIGGER, "trigger noted"),
        ("create publication copies for table {g}", "publication copies"),
        ("create view report as select * from {g}", "view public.report, which depends on"),
        ("create materialized view report as select cents from {g}", "materialized view public.report"),
        ("create table bills (order_id text references {g})", "bills_order_id_fkey on table public.bills"),
        ("create table more () inherits ({g})", "table public.more"),
        (FUNCTION, "function public.listed"),
    ],
)
async def test_what_cannot_be_carried_over_is_refused_by_name(
    rebuilds: RebuildHarness, made: str, named: str
) -> None:
    harness = rebuilds.harness
    await harness.migrate(_spent(rebuilds))
    await harness.publish(OrderPlaced("ann", 100), "o1", 1)
    await harness.settle(_spent(rebuilds))
    await harness.pool.execute(made.replace("{g}", "projectionist.spent__g1"))

    with listening() as heard, pytest.raises(DependentViews, match=named):
        await rebuilds.rebuild(_spent(rebuilds))

    assert heard.counts["rebuild.copied"] == 0  # it is told before hours of building
    assert await rebuilds.generation(_spent(rebuilds)) == 1


async def test_a_view_no_longer_fed_is_dropped_by_the_swap_unless_something_depends_on_it(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    await harness.migrate(_spent(rebuilds))
    await harness.publish(OrderPlaced("ann", 100), "o1", 1)
    await harness.settle(_spent(rebuilds))
    await harness.pool.execute("create view report as table spent")
    renamed = _spent(rebuilds, revision=2, table="spent_more")

    with pytest.raises(
        RebuildError, match=r"public\.spent is no longer fed, and view public\.report depends on it"
    ):
        await rebuilds.rebuild(renamed)

    await harness.pool.execute("drop view report")
    await rebuilds.rebuild(renamed)
    assert await harness.value("select to_regclass('spent')") is None
    await harness.pool.execute("update projectionist.generations set kept_until = now() where state = 'kept'")
    async with harness.connected() as connection:
        number = await inspection.view_number(harness)
        assert await sweep(rebuilds.queries(connection), number) == [1]
    assert await harness.rows("spent_more") == [("o1", 100)]


async def test_the_way_back_does_not_take_a_name_that_somebody_uses_by_now(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    await harness.migrate(_spent(rebuilds))
    await harness.publish(OrderPlaced("ann", 100), "o1", 1)
    await harness.settle(_spent(rebuilds))
    await rebuilds.rebuild(_spent(rebuilds, revision=2, table="spent_more"))
    await harness.pool.execute("create view spent as select 'o1'::text as order_id, 1::bigint as cents")

    with pytest.raises(DependentViews, match=r"spent.* is not the view that was made"):
        await rebuilds.rebuild(_spent(rebuilds), back_to=1)

    assert await harness.rows("spent") == [("o1", 1)]


ON_TABLE = """
create index on {g} (cents) where cents > 5; create unique index mine on {g} (lower(order_id));
create table members (known text); insert into members values ('o1');
alter table {g} set (fillfactor = 70); alter table {g} replica identity full;
alter table {g} alter cents set statistics 500; alter table {g} add constraint positive check (cents > 0);
comment on column {g}.cents is 'in cents'; alter table {g} enable row level security;
create policy own on {g} using (exists (select from members where known = order_id))"""
ABOUT_TABLE = r"""select reloptions, relreplident::text, col_description(c.oid, 2), relrowsecurity,
    (select attstattarget from pg_attribute where attrelid = c.oid and attnum = 2),
    (select array_agg(conname::text) from pg_constraint where conrelid = c.oid and contype = 'c'),
    (select array_agg(regexp_replace(qual, '__g\d+', '')) from pg_policies where tablename = relname),
    (select array_agg(split_part(indexdef, ' USING ', 2) order by indexdef ~ 'lower', indexdef ~ 'cents')
        from pg_indexes where tablename = relname)
    from pg_class c where c.oid = 'projectionist.spent__g1'::regclass"""


async def test_what_stands_on_the_table_behind_a_view_is_made_on_the_next_one(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    await harness.migrate(_spent(rebuilds))
    await harness.publish(OrderPlaced("ann", 100), "o1", 1)
    await harness.settle(_spent(rebuilds))
    await harness.pool.execute(ON_TABLE.replace("{g}", "projectionist.spent__g1"))
    before = await harness.fetch(ABOUT_TABLE)

    for generation in (2, 3):
        await rebuilds.rebuild(_spent(rebuilds))
        now = ABOUT_TABLE.replace("spent__g1", f"spent__g{generation}")
        assert await harness.fetch(now) == before


async def test_nobody_is_given_a_right_or_a_restriction_by_a_swap(rebuilds: RebuildHarness) -> None:
    """Neither default privileges nor what was so when a kept generation was live."""
    harness = rebuilds.harness
    async with plain(harness, "the_reader") as url:
        await harness.pool.execute(
            """grant usage on schema projectionist to the_reader;
            alter default privileges for role the_runner grant select on tables to the_reader"""
        )
        await harness.migrate(_spent(rebuilds))
        await harness.publish(OrderPlaced("ann", 100), "o1", 1)
        await harness.settle(_spent(rebuilds))
        await harness.pool.execute(
            """revoke all on spent, projectionist.spent__g1 from the_reader;
            grant select (order_id) on spent, projectionist.spent__g1 to the_reader"""
        )
        reader = await asyncpg.connect(url)
        for revision in (_spent(rebuilds), _retyped(rebuilds)):
            await rebuilds.rebuild(revision)
            for table in ("spent", f"projectionist.spent__g{await rebuilds.generation(revision)}"):
                assert await reader.fetchval(f"select order_id from {table}") == "o1"
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await reader.fetchval(f"select * from {table}")

        await harness.pool.execute("alter table projectionist.spent__g2 enable row level security")
        await harness.pool.execute("create policy none on projectionist.spent__g2 using (false)")
        await harness.pool.execute("grant select on projectionist.spent__g2 to the_reader")
        await rebuilds.rebuild(_spent(rebuilds), back_to=2)
        assert await reader.fetchval("select order_id from projectionist.spent__g2") == "o1"
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await reader.fetchval("select * from projectionist.spent__g2")
        await reader.close()
        await harness.pool.execute(
            "alter default privileges for role the_runner revoke select on tables from the_reader"
        )


async def test_a_policy_that_reads_another_generation_is_refused(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    await harness.migrate(_spent(rebuilds))
    await harness.settle(_spent(rebuilds))
    await harness.pool.execute(
        "create policy p on projectionist.orders__g1 using (order_id in (select order_id from projectionist.spent__g1))"
    )

    for one in (orders, _spent(rebuilds)):
        with pytest.raises(DependentViews, match="policy p"):
            await rebuilds.rebuild(one)


async def test_migrate_changes_a_view_of_another_owner(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    await _filled(rebuilds)
    async with plain(harness, "the_owner"):
        await harness.pool.execute(
            """grant create, usage on schema public to the_owner; grant select on projectionist.orders__g1 to the_owner;
            alter view orders owner to the_owner; grant the_owner to the_runner"""
        )
        await harness.migrate(grown(harness.stream))
        assert await harness.value("select carrier from orders where order_id = 'o1'") == "none"


async def test_whoever_may_not_change_the_view_is_told_what_to_do(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    orders = await _filled(rebuilds)
    async with plain(harness, "the_owner"):
        await harness.pool.execute(
            "grant create on schema public to the_owner; alter view orders owner to the_owner"
        )
        with pytest.raises(DependentViews, match="must be owner of view orders"):
            await rebuilds.rebuild(orders)
        assert await rebuilds.generation(orders) == 1
