"""History that is not all there: a row is not judged, and never written, by half of its events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.process import run_projectionist
from tests.support.rebuilding import RebuildHarness, shop_app
from tests.support.retention import age, purge, sent, went
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, OrderShipped, shop

from projectionist.core.operator import Act
from projectionist.runner.admin.reset import CannotReset, Resetting
from projectionist.runner.history.lost_events import HistoryGone
from projectionist.runner.rebuild.catch_up import EventsPurged
from projectionist.runner.stream_guard.adopt_stream import Adoption
from projectionist.runner.verify.verify import UndecidableRow

pytestmark = pytest.mark.asyncio

ORDERS = ["contiguous", "monotonic", "unordered"]
ACT = Act("me", "to see")


async def applied(rebuilds: RebuildHarness, s: Any, *classes: type) -> None:
    """Four orders, placed (sequences 1 to 4) and paid (5 to 8)."""
    await rebuilds.harness.migrate(*classes)
    for n in range(4):
        await rebuilds.harness.publish(OrderPlaced("ann", 100), f"o{n}", 1)
    for n in range(4):
        await rebuilds.harness.publish(OrderPaid(1), f"o{n}", 2)
    await rebuilds.harness.settle(*classes)


async def assert_undecidable(rebuilds: RebuildHarness, cls: type, lost: dict[str, str]) -> None:
    """By half of their events these rows are not judged, and cannot be written."""
    before = await rebuilds.rows_of(cls)
    for sample in (None, 100):
        verified = await rebuilds.verify(cls, sample)
        assert (verified.drifted, verified.unsure, verified.undecidable) == (0, 0, len(lost))
        assert sorted(verified.undecidable_rows, key=lambda one: one.key) == [
            UndecidableRow(key, event) for key, event in sorted(lost.items())
        ]
    for key in lost:
        with pytest.raises(HistoryGone, match="cannot be decided"):
            await rebuilds.mend(cls, key)
    assert await rebuilds.rows_of(cls) == before


@pytest.mark.parametrize("sequence", ORDERS)
async def test_rows_whose_first_events_have_aged_out_cannot_be_told(
    rebuilds: RebuildHarness, sequence: str
) -> None:
    s = shop(rebuilds.harness.stream, sequence=sequence)
    await applied(rebuilds, s, s.Orders, s.Spend)
    await rebuilds.harness.nats.jetstream().purge_stream(rebuilds.harness.stream.name, seq=3)

    lost = {"o0": "order/o0 v1", "o1": "order/o1 v1"}
    await assert_undecidable(rebuilds, s.Orders, lost)
    await assert_undecidable(rebuilds, s.Spend, {"ann": "order/o0 v1"})
    assert (await rebuilds.mend(s.Orders, "o2")).changed is None


@pytest.mark.parametrize("sequence", ORDERS)
async def test_rows_of_which_an_event_was_erased_cannot_be_told_and_all_others_can(
    rebuilds: RebuildHarness, sequence: str
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream, sequence=sequence)
    await applied(rebuilds, s, s.Orders, s.Spend)
    js = harness.nats.jetstream()
    await js.delete_msg(harness.stream.name, 2)
    await js.purge_stream(harness.stream.name, subject=harness.stream.subject("order", "o2"))

    await assert_undecidable(rebuilds, s.Orders, {"o1": "order/o1 v1", "o2": "order/o2 v1"})
    await assert_undecidable(rebuilds, s.Spend, {"ann": "order/o1 v1"})
    await harness.pool.execute("update projectionist.orders__g1 set cents = 7 where order_id = 'o3'")
    for sample in (None, 100):
        verified = await rebuilds.verify(s.Orders, sample)
        assert ([drift.key for drift in verified.drifts], verified.undecidable) == (["o3"], 2)
    assert (await rebuilds.mend(s.Orders, "o3")).changed is not None


async def test_what_retention_has_removed_from_the_inbox_is_missed_by_its_version(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await applied(rebuilds, s, s.Orders, s.Spend)
    await sent(harness)
    await age(harness, 40)
    assert went(await purge(harness, s.Orders, s.Spend))["inbox"] == 16
    await harness.nats.jetstream().delete_msg(harness.stream.name, 2)

    await assert_undecidable(rebuilds, s.Orders, {"o1": "order/o1 v1"})
    await assert_undecidable(rebuilds, s.Spend, {"ann": "order/o1 v1"})
    assert (await rebuilds.mend(s.Orders, "o3")).changed is None


async def test_events_of_a_stream_that_was_made_anew_and_adopted_are_lost(rebuilds: RebuildHarness) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await applied(rebuilds, s, s.Orders, s.Spend)
    js = harness.nats.jetstream()
    await js.delete_stream(harness.stream.name)
    await js.add_stream(name=harness.stream.name, subjects=[harness.stream.subjects])
    await harness.publish(OrderNoted("after"), "o1", 3, id="o1-3")
    await harness.publish(OrderPlaced("bob", 5), "o9", 1, id="o9-1")
    for refused in (rebuilds.verify(s.Orders), rebuilds.mend(s.Orders, "o1"), rebuilds.rebuild(s.Orders)):
        with pytest.raises(HistoryGone, match="not the one that was read"):
            await refused
    async with harness.pool.acquire() as connection:
        for name in ("Orders", "Spend"):
            await Adoption(connection, harness.nats, "projectionist").adopt(name, ACT)
    await harness.settle(s.Orders, s.Spend)

    lost = {f"o{n}": f"order/o{n} v1" for n in range(4)}
    await assert_undecidable(rebuilds, s.Orders, lost)
    await assert_undecidable(rebuilds, s.Spend, {"ann": "order/o0 v1"})
    assert (await rebuilds.mend(s.Orders, "o9")).changed is None


async def test_an_event_that_no_handler_takes_has_touched_no_row_that_aggregates_share(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await applied(rebuilds, s, s.Spend)
    await harness.publish(OrderShipped(), "o1", 3)
    await harness.settle(s.Spend)
    await harness.nats.jetstream().delete_msg(harness.stream.name, 9)
    await harness.pool.execute("update projectionist.spend__g1 set cents = 7")

    assert (await rebuilds.verify(s.Spend, 10)).drifted == 1
    assert (await rebuilds.mend(s.Spend, "ann")).changed is not None
    assert await harness.rows("spend") == [("ann", 4, 400)]


async def test_a_row_that_no_event_made_is_drift_though_the_stream_lost_events_of_others(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await applied(rebuilds, s, s.Orders)
    await harness.nats.jetstream().delete_msg(harness.stream.name, 2)
    await harness.pool.execute("insert into projectionist.orders__g1 (order_id) values ('ghost')")
    verified = await rebuilds.verify(s.Orders)
    assert ([drift.key for drift in verified.drifts], verified.undecidable) == (["ghost"], 1)
    assert (await rebuilds.mend(s.Orders, "ghost")).changed is not None


@pytest.mark.parametrize("sequence", ORDERS)
async def test_an_event_erased_inside_the_stream_is_told_before_a_rebuild_begins(
    rebuilds: RebuildHarness, sequence: str
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream, sequence=sequence)
    await applied(rebuilds, s, s.Orders)
    before = await harness.rows("orders")
    await harness.nats.jetstream().delete_msg(harness.stream.name, 6)

    with pytest.raises(HistoryGone, match="order/o1"):
        await rebuilds.rebuild(s.Orders)
    async with harness.pool.acquire() as connection:
        with pytest.raises(CannotReset, match="order/o1"):
            await Resetting(connection, harness.nats, "projectionist").plan("Orders")
    assert await harness.rows("orders") == before
    await rebuilds.rebuild(s.Orders, partial=True, accept_differences=True)
    assert await rebuilds.generation(s.Orders) == 2


async def test_an_event_erased_in_the_bulk_is_missed_before_the_swap_and_partial_goes_on(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream, sequence="unordered")
    await applied(rebuilds, s, s.Orders)
    before = await harness.rows("orders")
    async with rebuilds.frozen(s.Orders, "rebuild.prepared") as building:
        await harness.nats.jetstream().delete_msg(harness.stream.name, 6)
    with pytest.raises(EventsPurged, match="order/o1 v2"):
        await building

    assert await harness.rows("orders") == before
    await rebuilds.moments_pass()
    assert (await rebuilds.rebuild(s.Orders, partial=True, accept_differences=True)).resumed
    assert [row[1] for row in await harness.rows("orders")] == ["paid", "placed", "paid", "paid"]


async def test_the_command_counts_what_cannot_be_told_beside_what_has_drifted(
    rebuilds: RebuildHarness, tmp_path: Path
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await applied(rebuilds, s, s.Orders, s.Spend)
    await harness.nats.jetstream().delete_msg(harness.stream.name, 2)
    env = shop_app(tmp_path, harness)

    told = await run_projectionist("verify", "orders:app", "Orders", "--all", cwd=tmp_path, **env)
    assert told.code == 3, told.err
    assert "4 rows compared, 0 differ, 1 cannot be decided" in told.out
    assert "o1: the stream no longer holds order/o1 v1" in told.out
    told = await run_projectionist("verify", "orders:app", "Orders", "--all", "--json", cwd=tmp_path, **env)
    (verified,) = json.loads(told.out)["verified"]
    assert (verified["drifted"], verified["undecidable"]) == (0, 1)
    assert verified["undecidable_rows"] == [{"key": "o1", "lost": "order/o1 v1"}]
    refused = await run_projectionist(
        *("recompute", "orders:app", "Orders", "o1", "--reason", "drift"), cwd=tmp_path, **env
    )
    assert refused.code == 1
    assert "cannot be decided" in refused.err
