"""Whose a table is: one consumer's, by name and by what it bears, whatever else is in the database."""

from __future__ import annotations

import pytest
from tests.support import inspection
from tests.support.rebuilding import RebuildHarness, dying
from tests.support.roles import RUNNER
from tests.support.servers import SCHEMA
from tests.support.shop import OrderPlaced, shop

from projectionist.projections import Envelope, Projection, SqlProjection, Tx, on
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.read_models.change_plan import ReadModelError
from projectionist.runner.read_models.generations import drop

pytestmark = pytest.mark.asyncio


def _spend(rebuilds: RebuildHarness, consumer: str, table: str, revision: int = 1) -> type:
    stream = rebuilds.harness.stream

    class Spent(
        Projection,
        name=consumer,
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
            self.cents += event.cents

    return Spent


async def test_tables_of_one_name_in_two_schemas_have_nothing_in_common(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    await harness.pool.execute(
        f"create schema sales authorization {RUNNER}; create schema billing authorization {RUNNER}"
    )
    sales, billing = _spend(rebuilds, "Sales", "sales.orders"), _spend(rebuilds, "Billing", "billing.orders")
    await harness.migrate(sales)
    await harness.publish(OrderPlaced("ann", 100), "o1", 1)
    await harness.settle(sales)
    await rebuilds.rebuild(sales)
    await harness.migrate(billing)
    await harness.settle(billing)
    await rebuilds.rebuild(billing)

    await harness.publish(OrderPlaced("bob", 7), "o2", 1)
    await harness.settle(sales)

    assert await harness.rows("sales.orders") == [("o1", 100), ("o2", 7)]
    assert await harness.rows("billing.orders") == [("o1", 100)]
    assert await rebuilds.tables() == [
        f"{schema}.orders__g{n}" for schema in ("billing", "sales") for n in (1, 2)
    ]


async def test_a_sql_projection_outside_public_is_rebuilt_into_tables_of_its_own(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    await harness.pool.execute(f"create schema sales authorization {RUNNER}")

    class Totals(
        SqlProjection, stream=harness.stream.name, subjects=harness.stream.subject("order", "{aggregate}")
    ):
        tables = {
            "sales.orders": "id text primary key",
            "sales.lines": "id text references {orders}, cents bigint",
        }

        @on(OrderPlaced)
        async def placed(self, tx: Tx, event: OrderPlaced, env: Envelope) -> None:
            await tx.execute("insert into {orders} values ($1)", env.aggregate_id)
            await tx.execute("insert into {lines} values ($1, $2)", env.aggregate_id, event.cents)

    await harness.migrate(Totals)
    await harness.publish(OrderPlaced("ann", 100), "o1", 1)
    await harness.settle(Totals)
    await rebuilds.rebuild(Totals)

    assert await harness.rows("sales.lines") == [("o1", 100)]
    async with harness.connected() as connection:
        await drop(Queries(connection, SCHEMA), await inspection.view_number(harness), 1)
    assert await rebuilds.tables() == ["sales.lines__g2", "sales.orders__g2"]


async def test_a_name_that_a_kept_generation_has_is_not_free_and_is_when_that_is_dropped(
    rebuilds: RebuildHarness,
) -> None:
    """Going back to it would take the name from its new owner."""
    harness = rebuilds.harness
    await harness.migrate(_spend(rebuilds, "First", "orders"))
    await harness.publish(OrderPlaced("ann", 100), "o1", 1)
    await harness.settle(_spend(rebuilds, "First", "orders"))
    await rebuilds.rebuild(_spend(rebuilds, "First", "moved", revision=2))

    with pytest.raises(ReadModelError, match=r"public\.orders of 'Second' belongs to consumer 'First'"):
        await harness.migrate(_spend(rebuilds, "Second", "orders"))

    assert await inspection.rows(harness, "own_names", "name", order="name") == [
        ("public.moved",),
        ("public.orders",),
    ]


async def test_a_raised_revision_cannot_take_a_name_that_is_anothers(rebuilds: RebuildHarness) -> None:
    """Also that of a consumer whose class is gone."""
    harness = rebuilds.harness
    await harness.migrate(_spend(rebuilds, "Gone", "theirs"), _spend(rebuilds, "Own", "ours"))
    await harness.publish(OrderPlaced("ann", 100), "o1", 1)
    await harness.settle(_spend(rebuilds, "Gone", "theirs"), _spend(rebuilds, "Own", "ours"))

    with pytest.raises(ReadModelError, match=r"public\.theirs of 'Own' belongs to consumer 'Gone'"):
        await rebuilds.rebuild(_spend(rebuilds, "Own", "theirs", revision=2))

    assert await harness.rows("theirs") == [("o1", 100)]
    assert await inspection.count(harness, "builds") == 0


async def test_a_build_that_finds_a_table_in_its_place_leaves_it_and_takes_the_next_number(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 100), "o1", 1)
    await harness.settle(s.Orders)
    await harness.pool.execute("create table projectionist.orders__g2 as select 'mine' as whose")
    await harness.pool.execute("create view report as table projectionist.orders__g2")

    with pytest.raises(RebuildError, match=r"orders__g2.* is not this build's"):
        await rebuilds.rebuild(s.Orders)
    assert (await rebuilds.rebuild(s.Orders, restart=True)).views[0].generation == 3

    assert await harness.rows("report") == [("mine",)]


async def test_a_table_that_does_not_bear_its_mark_is_not_dropped(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 100), "o1", 1)
    await harness.settle(s.Orders)
    await rebuilds.rebuild(s.Orders)
    await harness.pool.execute("drop table projectionist.orders__g1")
    await harness.pool.execute("create table projectionist.orders__g1 as select 'mine' as whose")
    number = await inspection.view_number(harness)

    async with harness.connected() as connection:
        with pytest.raises(RebuildError, match="does not bear the comment 'projectionist: generation 1"):
            await drop(Queries(connection, SCHEMA), number, 1)

    assert await harness.rows("projectionist.orders__g1") == [("mine",)]


async def test_what_stands_on_a_shadow_is_named_and_not_dropped_with_it(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 100), "o1", 1)
    await harness.settle(s.Orders)
    with dying("rebuild.bulk_done"):
        await rebuilds.rebuild(s.Orders)
    await harness.pool.execute("create view report as table projectionist.orders__g2")

    with pytest.raises(RebuildError, match=r"view public\.report depends on table"):
        await rebuilds.give_up(s.Orders)

    assert await harness.rows("report") == [("o1", "placed", 100, '["placed"]')]
    await harness.pool.execute("drop view report")
    assert await rebuilds.give_up(s.Orders) == [2]
