"""What a rebuild refuses, and what it needs a word for."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.rebuilding import RebuildHarness, dying
from tests.support.servers import Stream
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.projections import Event, Projection, on
from projectionist.runner.database.queries import BuildLost, InUse, RebuildError
from projectionist.runner.history.handler_failures import HandlersFailed
from projectionist.runner.history.lost_events import HistoryGone
from projectionist.runner.rebuild import build_state
from projectionist.runner.rebuild.build_lease import AlreadyBuilding
from projectionist.runner.rebuild.compare import Differs

pytestmark = pytest.mark.asyncio


async def test_a_reactor_has_nothing_to_rebuild(rebuilds: RebuildHarness) -> None:
    s = shop(rebuilds.harness.stream)
    await rebuilds.harness.migrate(s.Mailer)
    with pytest.raises(RebuildError, match="no rows"):
        await rebuilds.rebuild(s.Mailer)


async def test_a_consumer_that_is_not_there_is_refused(rebuilds: RebuildHarness) -> None:
    s = shop(rebuilds.harness.stream)
    with pytest.raises(RebuildError, match="migrate"):
        await rebuilds.rebuild(s.Orders)


async def test_a_second_builder_is_refused_by_name_of_the_first(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 500), "o1", 1)
    await harness.settle(s.Orders)
    async with rebuilds.reading(s.Orders) as first:
        with pytest.raises(AlreadyBuilding, match=r"pid \d+"):
            await rebuilds.rebuild(s.Orders)
    assert (await first).views[0].generation == 2


async def test_a_builder_that_slept_past_its_turn_writes_nothing_more(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 500), "o1", 1)
    await harness.settle(s.Orders)
    rows = await harness.rows("orders")
    async with rebuilds.frozen(s.Orders, "rebuild.flushed") as first:
        await rebuilds.moments_pass()
        assert (await rebuilds.rebuild(s.Orders)).resumed
    with pytest.raises(BuildLost):
        await first
    assert await rebuilds.generation(s.Orders) == 2
    assert await harness.rows("orders") == rows


async def test_handlers_that_fail_where_live_succeeded_stop_the_build_and_name_the_events(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    for n in range(3):
        await harness.publish(OrderPlaced("ann", 1), f"o{n}", 1)
        await harness.publish(OrderNoted("worse"), f"o{n}", 2)
    await harness.settle(s.Orders)
    rows = await harness.rows("orders")
    s.trouble.poison.add("worse")

    with pytest.raises(HandlersFailed) as told:
        await rebuilds.rebuild(s.Orders)

    assert [(each.aggregate, each.version) for each in told.value.stumbles] == [
        (f"order/o{n}", 2) for n in range(3)
    ]
    assert await harness.rows("orders") == rows
    s.trouble.poison.clear()
    assert (await rebuilds.rebuild(s.Orders)).resumed
    assert await harness.rows("orders") == rows


async def test_a_live_row_that_its_events_do_not_make_stops_the_swap_until_a_word_is_said(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    for n in range(3):
        await harness.publish(OrderPlaced("ann", 1), f"o{n}", 1)
    await harness.settle(s.Orders)
    await harness.pool.execute("update projectionist.orders__g1 set cents = 99 where order_id = 'o1'")
    await harness.pool.execute("delete from projectionist.orders__g1 where order_id = 'o2'")

    with pytest.raises(Differs) as told:
        await rebuilds.rebuild(s.Orders)

    shown = [(d.key, d.live, d.rebuilt is not None) for d in told.value.compared.differences]
    assert shown == [("o1", {"cents": 99}, True), ("o2", None, True)]
    assert await rebuilds.generation(s.Orders) == 1
    rebuilt = await rebuilds.rebuild(s.Orders, accept_differences=True)
    assert rebuilt.resumed
    assert [row[2] for row in await harness.rows("orders")] == [1, 1, 1]


async def test_history_that_is_gone_is_refused_by_name_and_partial_goes_on_without_it(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.publish(OrderPlaced("bob", 2), "o2", 1)
    await harness.publish(OrderPaid(1), "o1", 2)
    await harness.settle(s.Orders)
    await harness.nats.jetstream().purge_stream(harness.stream.name, seq=2)

    with pytest.raises(HistoryGone, match="order/o1"):
        await rebuilds.rebuild(s.Orders)

    rebuilt = await rebuilds.rebuild(s.Orders, partial=True, accept_differences=True)
    assert [d.key for d in rebuilt.views[0].compared.differences] == ["o1"]
    assert await harness.rows("orders") == [("o2", "placed", 2, '["placed"]')]


async def test_migrate_waits_for_an_open_build(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)
    async with rebuilds.reading(s.Orders) as first:
        await harness.pool.execute("update projectionist.views set shape = 'other'")
        with pytest.raises(Exception, match="is open"):
            await harness.migrate(s.Orders)
        await harness.pool.execute(
            "update projectionist.views v set shape = b.shape from projectionist.build_views b"
        )
    await first


async def test_an_old_snapshot_is_waited_for_and_never_finds_the_table_empty(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    for n in range(5):
        await harness.publish(OrderPlaced("ann", 1), f"o{n}", 1)
    await harness.settle(s.Orders)
    async with harness.pool.acquire() as reader:
        transaction = reader.transaction(isolation="repeatable_read")
        await transaction.start()
        assert await reader.fetchval("select 1") == 1
        with listening() as heard:
            building = asyncio.create_task(rebuilds.rebuild(s.Orders))
            await heard.wait("rebuild.waiting")
            assert await reader.fetchval("select count(*) from orders") == 5
            await transaction.rollback()
            await building
        assert await reader.fetchval("select count(*) from orders") == 5


async def test_aborting_leaves_nothing_behind(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(s.Orders)

    with dying("rebuild.bulk_done"):
        await rebuilds.rebuild(s.Orders)
    assert await rebuilds.tables() == ["orders__g1", "orders__g2"]

    assert await rebuilds.give_up(s.Orders) == [2]

    assert await rebuilds.tables() == ["orders__g1"]
    assert await harness.value("select count(*) from {s}.consumers where build is not null") == 0
    assert (
        await harness.value("select count(*) from pg_tables where tablename like 'build\\_positions\\__%'")
        == 0
    )
    assert await rebuilds.give_up(s.Orders) == []
    assert (await rebuilds.rebuild(s.Orders)).views[0].generation == 3


class Registered(Event, type="customer.registered"):
    """Of another type of aggregates, whose ids may be the same."""


@pytest.mark.parametrize("memory", [1, 200_000])
async def test_two_aggregate_types_with_like_ids_share_no_row_of_a_rebuild(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    monkeypatch.setattr(build_state, "ROWS_AT_ONCE", memory)
    harness = rebuilds.harness
    before, after = owns(harness.stream, key="c"), owns(harness.stream, revision=2)
    await harness.migrate(before)
    await harness.publish(OrderPlaced("ann", 100), "7", 1)
    await harness.publish(OrderPlaced("ann", 100), "8", 1)
    await harness.publish(Registered(), "7", 1, kind="customer")
    await harness.settle(before)
    rows = await harness.rows("own")
    assert rows == [("7", 100, 0), ("8", 100, 0), ("c", 0, 1)]

    with pytest.raises(
        HandlersFailed, match=r"customer \[\w+\] v1 \(sequence 3, customer.registered\)"
    ) as told:
        await rebuilds.rebuild(after)
    assert "is the id of aggregates of type 'order'" in told.value.stumbles[0].text
    assert await harness.rows("own") == rows


async def test_a_rebuild_that_finds_the_first_own_type_has_live_refuse_the_others(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    before, after = owns(harness.stream, key="c", whose="customer"), owns(harness.stream, revision=2)
    await harness.migrate(before)
    await harness.publish(OrderPlaced("ann", 100), "7", 1)
    await harness.settle(before)
    assert await inspection.own_type(harness) is None

    await rebuilds.rebuild(after)
    assert await inspection.own_type(harness) == "order"
    await harness.publish(Registered(), "7", 1, kind="customer")
    await harness.settle(after)

    assert await harness.rows("own") == [("7", 100, 0)]
    assert await harness.head(after, "customer/7") == (0, "waiting", 1)


def owns(stream: Stream, *, revision: int = 1, key: str | None = None, whose: str | None = None) -> type:
    """One row an order, and customers in a row of their own, or, with no key, in that of an order of the same id."""
    given: dict[str, Any] = {"key": lambda _: key} if key else {}

    class Own(
        Projection,
        stream=stream.name,
        subjects=stream.subject("*", "{aggregate}"),
        table="own",
        key="id",
        revision=revision,
    ):
        """Orders and customers."""

        id: str
        cents: int = 0
        customers: int = 0

        @on(OrderPlaced, key=whose)
        def placed(self, event: OrderPlaced) -> None:
            self.cents += event.cents

        @on(Registered, **given)
        def registered(self, event: Registered) -> None:
            self.customers += 1

    return Own


async def test_a_build_whose_session_still_works_on_it_is_refused_with_a_remedy(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    orders: type = shop(harness.stream).Orders
    await harness.migrate(orders)
    await harness.publish(OrderPlaced("ann", 500), "o1", 1)
    await harness.settle(orders)
    with dying("rebuild.flipped"):
        await rebuilds.rebuild(orders)
    orphan = await harness.own_connection()
    try:
        await orphan.execute("begin; select from projectionist.builds for update")
        postgres = msgspec.structs.replace(harness.settings.postgres, lock_s=0.1)
        harness.settings = msgspec.structs.replace(harness.settings, postgres=postgres)
        with pytest.raises(InUse, match="still at work") as refused:
            await rebuilds.rebuild(orders)
        assert "pg_stat_activity" in str(refused.value.remedy)
        with pytest.raises(InUse, match="still at work"):
            await rebuilds.give_up(orders)
    finally:
        await orphan.close()

    assert (await rebuilds.rebuild(orders)).resumed


async def test_giving_up_takes_as_long_as_its_marks_are_many(rebuilds: RebuildHarness) -> None:
    """No limit of a statement: what could not be ended could not be gone on with either."""
    harness = rebuilds.harness
    orders: type = shop(harness.stream).Orders
    await harness.migrate(orders)
    await harness.publish(OrderPlaced("ann", 500), "o1", 1)
    await harness.settle(orders)
    with dying("rebuild.flipped"):
        await rebuilds.rebuild(orders)
    await harness.pool.execute(
        """
        create function takes_long() returns trigger language plpgsql as $$ begin
            perform pg_sleep(0.5); return null;
        end $$;
        create trigger takes_long before delete on projectionist.dirty_marks execute function takes_long();
        """
    )
    postgres = msgspec.structs.replace(harness.settings.postgres, lock_s=0.2, statement_s=0.3)
    harness.settings = msgspec.structs.replace(harness.settings, postgres=postgres)
    assert await rebuilds.give_up(orders) == [2]
