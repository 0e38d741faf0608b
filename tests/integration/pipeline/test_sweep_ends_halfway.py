"""A process that ends in the middle of its sweep: whoever comes next finishes what it had begun, once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import anyio
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import eventually

from projectionist.core import testpoints
from projectionist.core.operator import Act
from projectionist.core.settings.settings import Policy
from projectionist.runner.jetstream import api

pytestmark = pytest.mark.asyncio

ME = Act("ann", "test")
POLICY = Policy(max_parked_payloads=2, drain_batch_size=3, gap_fetch_delay_ms=20, late_s=0, ack_wait_s=1)


class Ended(BaseException):
    """The process is gone: nothing in it answers to that, as it would to an error."""


@contextmanager
def ending_at(point: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the worker when it announces this; "asking" is in the middle of its questions to the broker."""

    def end(name: str) -> None:
        if name == point:
            raise Ended(name)

    questions = count()

    async def ask(*_: Any) -> None:
        if next(questions):
            await anyio.sleep_forever()
        raise Ended("asking")

    with monkeypatch.context() as patched:
        if point == "asking":
            patched.setattr(api, "message", ask)
        stop = testpoints.listen(end)
        try:
            yield
        finally:
            stop()


async def end_at(point: str, live: ConsumerHarness, consumer: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the consumer until it ends there."""

    async def ended() -> bool:
        return any(task.done() for task in live._tasks)

    with ending_at(point, monkeypatch), pytest.raises(Ended):
        async with live.running(consumer, policy=POLICY):
            await eventually(ended)


@pytest.mark.parametrize(
    "point", ["asking", "references.fetched", "batch.folded", "batch.written", "batch.committed"]
)
async def test_references_are_fetched_and_drained_by_whoever_comes_next(
    live: ConsumerHarness, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for version in range(2, 10):
        await live.publish(OrderNoted(f"n{version}"), "o1", version)
    await live.settle(s.Orders, policy=POLICY)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await end_at(point, live, s.Orders, monkeypatch)

    async with live.running(s.Orders, policy=POLICY):
        await eventually(lambda: live.value("select count(*) = 1 from {s}.positions where version = 9"))
        await live.settled(s.Orders)

    assert await live.value("select history::text from orders") == (
        '["placed", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"]'
    )
    assert await live.unaccounted(s.Orders) == []


@pytest.mark.parametrize(
    "point", ["quarantine.read", "batch.entered", "batch.claimed", "batch.written", "batch.committed"]
)
async def test_an_entry_of_quarantine_is_settled_by_whoever_comes_next(
    live: ConsumerHarness, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a")
    seq = await live.publish(OrderPaid(5), "o1", None, id="b")
    await live.settle(s.Orders)
    async with live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "2"})
    await end_at(point, live, s.Orders, monkeypatch)
    is_released = point == "batch.committed"
    assert await inspection.value(live, "quarantine", "state") == (
        "released" if is_released else "quarantined"
    )
    assert (await live.states(s.Orders)).get("b") == ("applied" if is_released else None)

    async with live.running(s.Orders, policy=POLICY):
        await eventually(lambda: live.value("select state = 'released' from {s}.quarantine"))

    assert await live.rows("orders") == [("o1", "paid", 5, '["placed", "paid"]')]
    assert await inspection.count_intents(live) == 1
    assert await live.unaccounted(s.Orders) == []


@pytest.mark.parametrize("point", ["asking", "baseline.found", "batch.written", "batch.committed"])
async def test_a_beginning_is_recorded_once_whoever_finds_it(
    live: ConsumerHarness, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream, baseline="any")
    await live.migrate(s.Orders)
    for version in (3, 4):
        await live.publish(OrderNoted(f"n{version}"), "o1", version)
    await end_at(point, live, s.Orders, monkeypatch)

    async with live.running(s.Orders, policy=POLICY):
        await eventually(lambda: live.value("select count(*) = 1 from {s}.positions where version = 4"))

    assert await live.value("select history::text from orders") == '["n3", "n4"]'
    assert await inspection.rows(live, "decisions", "kind", "version", "upto") == [("baseline", 1, 2)]
    assert await live.unaccounted(s.Orders) == []
