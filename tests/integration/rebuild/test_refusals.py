"""What a rebuild refuses, and what it needs a word for."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.rebuilding import Yard
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.core.signals import listen
from projectionist.runner.rebuild.compare import Differs
from projectionist.runner.rebuild.desk import BuildLost, RebuildError
from projectionist.runner.rebuild.plan import HistoryGone
from projectionist.runner.rebuild.shadow import Stumbled
from projectionist.runner.rebuild.turn import Taken

pytestmark = pytest.mark.asyncio


async def test_a_reactor_has_nothing_to_rebuild(yard: Yard) -> None:
    s = shop(yard.rig.stream)
    await yard.rig.migrate(s.Mailer)
    with pytest.raises(RebuildError, match="no rows"):
        await yard.rebuild(s.Mailer)


async def test_a_consumer_that_is_not_there_is_refused(yard: Yard) -> None:
    s = shop(yard.rig.stream)
    with pytest.raises(RebuildError, match="migrate"):
        await yard.rebuild(s.Orders)


async def test_a_second_builder_is_refused_by_name_of_the_first(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 500), "o1", 1)
    await rig.settle(s.Orders)
    async with yard.reading(s.Orders) as first:
        with pytest.raises(Taken, match=r"pid \d+"):
            await yard.rebuild(s.Orders)
    assert (await first).generation == 2


async def test_a_builder_that_slept_past_its_turn_writes_nothing_more(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 500), "o1", 1)
    await rig.settle(s.Orders)
    rows = await rig.rows("orders")
    async with yard.frozen(s.Orders, "rebuild.flushed") as first:
        await yard.moments_pass()
        assert (await yard.rebuild(s.Orders)).resumed
    with pytest.raises(BuildLost):
        await first
    assert await yard.generation(s.Orders) == 2
    assert await rig.rows("orders") == rows


async def test_handlers_that_fail_where_live_succeeded_stop_the_build_and_name_the_events(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    for n in range(3):
        await rig.publish(OrderPlaced("ann", 1), f"o{n}", 1)
        await rig.publish(OrderNoted("worse"), f"o{n}", 2)
    await rig.settle(s.Orders)
    rows = await rig.rows("orders")
    s.trouble.poison.add("worse")

    with pytest.raises(Stumbled) as told:
        await yard.rebuild(s.Orders)

    assert [(each.aggregate, each.version) for each in told.value.stumbles] == [
        (f"order/o{n}", 2) for n in range(3)
    ]
    assert await rig.rows("orders") == rows
    s.trouble.poison.clear()
    assert (await yard.rebuild(s.Orders)).resumed
    assert await rig.rows("orders") == rows


async def test_a_live_row_that_its_events_do_not_make_stops_the_swap_until_a_word_is_said(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    for n in range(3):
        await rig.publish(OrderPlaced("ann", 1), f"o{n}", 1)
    await rig.settle(s.Orders)
    await rig.pool.execute("update projectionist.orders__g1 set cents = 99 where order_id = 'o1'")
    await rig.pool.execute("delete from projectionist.orders__g1 where order_id = 'o2'")

    with pytest.raises(Differs) as told:
        await yard.rebuild(s.Orders)

    shown = [(d.key, d.live, d.rebuilt is not None) for d in told.value.compared.differences]
    assert shown == [("o1", {"cents": 99}, True), ("o2", None, True)]
    assert await yard.generation(s.Orders) == 1
    rebuilt = await yard.rebuild(s.Orders, accept_differences=True)
    assert rebuilt.resumed
    assert [row[2] for row in await rig.rows("orders")] == [1, 1, 1]


async def test_history_that_is_gone_is_refused_by_name_and_partial_goes_on_without_it(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    await rig.publish(OrderPlaced("bob", 2), "o2", 1)
    await rig.publish(OrderPaid(1), "o1", 2)
    await rig.settle(s.Orders)
    await rig.nats.jetstream().purge_stream(rig.stream.name, seq=2)

    with pytest.raises(HistoryGone, match="order/o1"):
        await yard.rebuild(s.Orders)

    rebuilt = await yard.rebuild(s.Orders, partial=True, accept_differences=True)
    assert [d.key for d in rebuilt.compared.differences] == ["o1"]
    assert await rig.rows("orders") == [("o2", "placed", 2, '["placed"]')]


async def test_migrate_waits_for_an_open_build(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    await rig.settle(s.Orders)
    async with yard.reading(s.Orders) as first:
        await rig.pool.execute("update projectionist.consumers set shape = 'other'")
        with pytest.raises(Exception, match="is open"):
            await rig.migrate(s.Orders)
        await rig.pool.execute(
            "update projectionist.consumers c set shape = b.shape from projectionist.builds b"
        )
    await first


async def test_an_old_snapshot_is_waited_for_and_never_finds_the_table_empty(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    for n in range(5):
        await rig.publish(OrderPlaced("ann", 1), f"o{n}", 1)
    await rig.settle(s.Orders)
    async with rig.pool.acquire() as reader:
        transaction = reader.transaction(isolation="repeatable_read")
        await transaction.start()
        assert await reader.fetchval("select 1") == 1
        with listening() as heard:
            building = asyncio.create_task(yard.rebuild(s.Orders))
            await heard.wait("rebuild.waiting")
            assert await reader.fetchval("select count(*) from orders") == 5
            await transaction.rollback()
            await building
        assert await reader.fetchval("select count(*) from orders") == 5


async def test_aborting_leaves_nothing_behind(yard: Yard) -> None:
    rig = yard.rig
    s = shop(rig.stream)
    await rig.migrate(s.Orders)
    await rig.publish(OrderPlaced("ann", 1), "o1", 1)
    await rig.settle(s.Orders)

    def die(name: str) -> None:
        if name == "rebuild.bulk_done":
            raise RuntimeError("the process is gone")

    stop = listen(die)
    with pytest.raises(RuntimeError):
        await yard.rebuild(s.Orders)
    stop()
    assert await yard.tables() == ["orders__g1", "orders__g2"]

    assert await yard.give_up(s.Orders) == 2

    assert await yard.tables() == ["orders__g1"]
    assert await rig.value("select count(*) from {s}.consumers where build is not null") == 0
    assert (
        await rig.value("select count(*) from pg_tables where tablename like 'build\\_positions\\__%'") == 0
    )
    assert await yard.give_up(s.Orders) is None
    assert (await yard.rebuild(s.Orders)).generation == 3
