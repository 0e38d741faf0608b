"""Each rule a rebuild stands on: with it all is well; without it, what it is there for happens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.support.rebuilding import RebuildHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.core.operator import Act
from projectionist.runner.batch.decisions import Decisions
from projectionist.runner.batch.handlers import PureHandlers
from projectionist.runner.batch.inbox_store import InboxStore
from projectionist.runner.database.queries import Queries, RebuildError
from projectionist.runner.history.handler_failures import HandlersFailed
from projectionist.runner.rebuild.bulk_phase import BulkPhase
from projectionist.runner.rebuild.catch_up import NotEqual
from projectionist.runner.rebuild.reader_snapshots import Snapshots

pytestmark = pytest.mark.asyncio

ACT = Act("me", "to see")

both = pytest.mark.parametrize("rule", [True, False], ids=["with", "without"])


async def nothing(*_: object) -> None:
    """What is done where the rule is taken out."""


@contextlib.asynccontextmanager
async def beside_others(queries: Queries, *_: object, **__: object) -> AsyncIterator[None]:
    """A transaction, and no barrier."""
    async with queries.connection.transaction():
        yield


@both
async def test_live_marks_what_it_moves_while_a_build_is_open(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    if not rule:
        monkeypatch.setattr(InboxStore, "mark", nothing)
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)
        async with rebuilds.frozen(s.Orders, "rebuild.bulk_done") as building:
            await harness.publish(OrderPaid(1), "o1", 2)
            await harness.publish(OrderPlaced("bob", 1), "o2", 1)
            await rebuilds.settled(s.Orders)
        if rule:
            assert (await building).caught_up == 2
        else:
            with pytest.raises(NotEqual, match="order/o"):
                await building
    assert await harness.rows("orders") == [
        ("o1", "paid", 1, '["placed", "paid"]'),
        ("o2", "placed", 1, '["placed"]'),
    ]


@both
async def test_the_shadow_folds_nothing_that_live_has_not_applied(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    s.trouble.poison.add("bad")
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.publish(OrderNoted("bad"), "o1", 2)
    await harness.publish(OrderPaid(1), "o1", 3)
    await harness.settle(s.Orders)
    s.trouble.poison.clear()
    if rule:
        await rebuilds.rebuild(s.Orders)
        assert await harness.rows("orders") == [("o1", "placed", 1, '["placed"]')]
        return
    judged: Callable[..., Awaitable[Any]] = BulkPhase._judge

    async def ahead(self: BulkPhase, *args: Any) -> Any:
        judge = await judged(self, *args)
        for track in judge.tracks.values():
            track.cap = 1_000
        return judge

    monkeypatch.setattr(BulkPhase, "_judge", ahead)
    with pytest.raises(RebuildError, match="o1"):
        await rebuilds.rebuild(s.Orders)


@both
async def test_decisions_are_repeated(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    s.trouble.poison.add("bad")
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    await harness.publish(OrderNoted("bad"), "o1", 2)
    await harness.publish(OrderPaid(1), "o1", 3)
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)
        async with harness.verbs(s.Orders) as verbs:
            await verbs.skip("order/o1", ACT)
        await rebuilds.settled(s.Orders)
    rows = await harness.rows("orders")
    assert rows == [("o1", "paid", 1, '["placed", "paid"]')]
    if rule:
        await rebuilds.rebuild(s.Orders)
        assert await harness.rows("orders") == rows
        return
    monkeypatch.setattr(Decisions, "_add", lambda _self, _row: None)
    with pytest.raises(HandlersFailed) as told:
        await rebuilds.rebuild(s.Orders)
    assert "bad" in told.value.stumbles[0].text


@both
async def test_the_swap_waits_for_open_batches_and_keeps_new_ones_out(
    rebuilds: RebuildHarness, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    harness = rebuilds.harness
    s = shop(harness.stream)
    await harness.migrate(s.Orders)
    await harness.publish(OrderPlaced("ann", 1), "o1", 1)
    gate, reached, fold = asyncio.Event(), asyncio.Event(), PureHandlers.fold

    async def gated(self: PureHandlers, courses: Any, refused: Any) -> Any:
        if self._consumer.runner and armed:
            reached.set()
            await gate.wait()
        return await fold(self, courses, refused)

    armed = False
    monkeypatch.setattr(PureHandlers, "fold", gated)
    if not rule:
        for taken in ("alone", "alone_once"):
            monkeypatch.setattr(Queries, taken, beside_others)
        monkeypatch.setattr(Queries, "show", nothing)
        # This batch is held up for so long that it counts as an old snapshot as well.
        monkeypatch.setattr(Snapshots, "wait", nothing)
        monkeypatch.setattr(Snapshots, "note", nothing)
    async with harness.running(s.Orders):
        await rebuilds.settled(s.Orders)
        armed = True
        await harness.publish(OrderPaid(1), "o1", 2)
        await reached.wait()  # a batch is open: it has read which generation is live
        with listening() as heard:
            building = asyncio.create_task(rebuilds.rebuild(s.Orders))
            try:
                await heard.wait("build_lease.taken" if rule else "swap.committed")
            finally:
                gate.set()
            await building
            await rebuilds.settled(s.Orders)
    paid = ("o1", "paid", 1, '["placed", "paid"]')
    assert await harness.rows("orders") == [paid if rule else ("o1", "placed", 1, '["placed"]')]
