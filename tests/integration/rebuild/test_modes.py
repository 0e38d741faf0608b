"""Every kind of consumer and every order can be rebuilt, in memory or over the disk."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
from tests.support import inspection
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import eventually, listening

from projectionist.core.operator import Act
from projectionist.core.testpoints import listen
from projectionist.projections import Event, SqlProjection, Tx, on
from projectionist.runner.admin.quarantine_actions import QuarantineActions
from projectionist.runner.batch.batch_session import store_of
from projectionist.runner.rebuild import build_state, bulk_phase_sql

pytestmark = pytest.mark.asyncio


async def publish_some(rebuilds: RebuildHarness, versions: int = 3, orders: int = 30) -> None:
    events: list[tuple[Event, str, int | None, str]] = []
    for v in range(1, versions + 1):
        for n in range(orders):
            event = OrderPlaced("ann" if n % 3 else "bob", n) if v == 1 else OrderNoted(f"{n}.{v}")
            events.append((event, f"o{n}", v, f"o{n}-{v}"))
    await rebuilds.harness.publish_all(events)


@pytest.mark.parametrize("name", ["Orders", "Spend"])
async def test_a_model_larger_than_memory_is_folded_over_the_disk(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(build_state, "ROWS_AT_ONCE", 7)
    harness = rebuilds.harness
    s = shop(harness.stream)
    cls, table = getattr(s, name), name.lower()
    await harness.migrate(cls)
    await publish_some(rebuilds)
    await harness.settle(cls)
    rows = await harness.rows(table)
    with listening() as heard:
        rebuilt = await rebuilds.rebuild(cls)
        assert rebuilt.views[0].compared.differences == []
        await heard.wait("rebuild.flushed", 5)
    assert await harness.rows(table) == rows


async def test_a_builder_that_dies_between_two_buckets_folds_only_those_that_are_left(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_state, "ROWS_AT_ONCE", 7)
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Spend)
    await publish_some(rebuilds)
    await harness.settle(s.Spend)
    rows = await harness.rows("spend")
    counts: Counter[str] = Counter()

    def die(name: str) -> None:
        counts[name] += 1
        if name == "rebuild.flushed" and counts[name] == 2:
            raise RuntimeError("the process is gone")

    stop = listen(die)
    with pytest.raises(RuntimeError):
        await rebuilds.rebuild(s.Spend)
    stop()
    stop = listen(lambda name: counts.update([name]))
    counts.clear()
    assert (await rebuilds.rebuild(s.Spend)).resumed
    stop()
    assert counts["rebuild.flushed"] == 3
    assert await harness.rows("spend") == rows


async def test_a_sql_projection_is_rebuilt_through_its_handlers(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Journal)
    await publish_some(rebuilds)
    await harness.settle(s.Journal)
    rows = await harness.rows("journal")
    assert len(rows) == 60
    monkeypatch.setattr(bulk_phase_sql, "BATCH", 20)

    def die(name: str) -> None:
        if name == "rebuild.flushed":
            raise RuntimeError("the process is gone")

    stop = listen(die)
    with pytest.raises(RuntimeError):
        await rebuilds.rebuild(s.Journal)
    stop()
    async with harness.running(s.Journal):
        await harness.publish(OrderNoted("late"), "o1", 4, id="late")
        await rebuilds.settled(s.Journal)
        rebuilt = await rebuilds.rebuild(s.Journal)
        await harness.publish(OrderNoted("later"), "o1", 5, id="later")
        await rebuilds.settled(s.Journal)
    assert rebuilt.resumed
    assert rebuilt.views[0].compared.differences == []
    assert await harness.rows("journal") == sorted([*rows, ("late", "late"), ("later", "later")])
    assert await rebuilds.generation(s.Journal) == 2


async def test_a_sql_handler_that_writes_the_live_table_stops_the_build(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness

    class Stray(
        SqlProjection,
        stream=harness.stream.name,
        subjects=harness.stream.subject("order", "{aggregate}"),
        effects="beginning",
    ):
        tables = {"stray": "id text primary key, n int not null"}

        @on(OrderPlaced)
        async def placed(self, tx: Tx, event: OrderPlaced) -> None:
            await tx.execute(
                "insert into projectionist.stray__g1 values ($1, 1) on conflict do nothing", event.customer
            )

    await harness.migrate(Stray)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.settle(Stray)
    await harness.pool.execute("delete from projectionist.stray__g1")

    with pytest.raises(bulk_phase_sql.ForeignTableWrite, match="stray__g1"):
        await rebuilds.rebuild(Stray)

    assert await harness.rows("stray") == []


@pytest.mark.parametrize("sequence", ["monotonic", "unordered"])
async def test_other_orders_are_rebuilt_from_what_live_has_applied(
    rebuilds: RebuildHarness, sequence: str
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream, sequence=sequence)
    s.trouble.refused.add("bad")
    await harness.migrate(s.Orders, s.Spend)
    for n in range(10):
        await harness.publish(OrderPlaced("ann", n), f"o{n}", 1, id=f"a{n}")
        await harness.publish(OrderNoted("bad" if n == 3 else "x"), f"o{n}", 4, id=f"b{n}")
        await harness.publish(OrderNoted("x"), f"o{n}", 2, id=f"c{n}")
        await harness.publish(OrderPlaced("ann", n), f"o{n}", 1, id=f"a{n}")
    async with harness.running(s.Orders, s.Spend):
        await rebuilds.settled(s.Orders, s.Spend)
        rows, spend, effects = (
            await harness.rows("orders"),
            await harness.rows("spend"),
            await rebuilds.effects(),
        )
        assert (await rebuilds.rebuild(s.Orders)).views[0].compared.differences == []
        assert (await rebuilds.rebuild(s.Spend)).views[0].compared.differences == []
        assert (await harness.rows("orders"), await harness.rows("spend")) == (rows, spend)
        assert await rebuilds.effects() == effects
        async with rebuilds.reading(s.Orders) as building:
            await harness.publish(OrderPaid(1), "o5", 5, id="d")
            await harness.publish(OrderNoted("while it reads"), "o6", 6, id="e")
            await rebuilds.settled(s.Orders)
        assert (await building).views[0].compared.differences == []
        s.trouble.refused.clear()
        async with harness.verbs(s.Orders) as verbs:
            if sequence == "unordered":
                await verbs.retry_entry(("shop", "b3"), Act("me", "mended"))
            else:
                await verbs.retry("order/o3", Act("me", "mended"))
        await rebuilds.settled(s.Orders)
        again = (await rebuilds.rebuild(s.Orders)).views[0].compared
        # Without order a late retry is folded where its event stands in the stream: told, and no surprise.
        assert again.expected
        assert [d.key for d in again.differences] == ["o3"] * (sequence == "unordered")


@pytest.mark.parametrize("baseline", ["any", 3])
async def test_an_aggregate_that_began_later_is_rebuilt_from_where_it_began(
    rebuilds: RebuildHarness, baseline: Any
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream, baseline=baseline)
    await harness.migrate(s.Orders)

    async def stands(name: str, version: int) -> bool:
        found = await inspection.rows(harness, "positions", "version", aggregate=f"order/{name}")
        return found == [(version,)]

    async with harness.running(s.Orders):
        await harness.publish(OrderPlaced("ann", 1), "o1", 3)
        await harness.publish(OrderNoted("x"), "o1", 4)
        await eventually(partial(stands, "o1", 4))
        await rebuilds.settled(s.Orders)
        async with rebuilds.frozen(s.Orders, "rebuild.bulk_done") as building:
            await harness.publish(OrderNoted("y"), "o1", 5)
            await harness.publish(OrderPlaced("bob", 1), "o2", 3)
            await eventually(partial(stands, "o2", 3))
            await rebuilds.settled(s.Orders)
        rebuilt = await building
    assert (rebuilt.caught_up, rebuilt.views[0].compared.differences) == (2, [])
    assert (await rebuilds.rebuild(s.Orders)).views[0].compared.differences == []


async def test_a_rebuild_folds_an_event_released_with_other_headers_as_it_was_released(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1, headers={"ce-aggregateversion": "one"})
    await harness.publish(OrderPaid(1), "o1", 2)
    await harness.publish_raw(b"{}", {"ce-type": "order.paid"}, "o2")
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)
        async with harness.pool.acquire() as connection:
            number = await connection.fetchval("select number from projectionist.consumers")
            verbs = QuarantineActions(store_of(connection, SCHEMA, number))
            await verbs.edit((1, 1), Act("me", "mended"), headers={"ce-aggregateversion": "1"})

        async def drained() -> bool:
            return await harness.head(s.Orders, "order/o1") == (2, "clear", 0)

        await eventually(drained)
        assert (await rebuilds.rebuild(s.Orders)).views[0].compared.differences == []
    assert await harness.rows("orders") == [("o1", "paid", 1, '["placed", "paid"]')]
    assert (await rebuilds.rebuild(s.Orders)).views[0].compared.differences == []
