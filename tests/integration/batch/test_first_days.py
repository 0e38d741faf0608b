"""However a consumer and its stream begin, nothing is told of messages that never were there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import SCHEMA
from tests.support.shop import OrderPlaced, shop
from tests.support.waiting import Heard, listening

from projectionist.core.operator import Act
from projectionist.core.settings.settings import Run
from projectionist.runner.admin.reset import Resetting
from projectionist.runner.stream_guard.adopt_stream import Adoption

pytestmark = pytest.mark.asyncio

ACT = Act("ann", "looked at it")
Ground = Callable[[ConsumerHarness], Awaitable[None]]


async def no_stream(live: ConsumerHarness) -> None:
    await live.nats.jetstream().delete_stream(live.stream.name)


async def empty_stream(live: ConsumerHarness) -> None:
    pass


async def purged_stream(live: ConsumerHarness) -> None:
    for number in range(3):
        await live.publish(OrderPlaced("ann", 5), f"old{number}", 1)
    await live.nats.jetstream().purge_stream(live.stream.name)


async def foreign_subjects(live: ConsumerHarness) -> None:
    for number in range(3):
        await live.publish(OrderPlaced("ann", 5), f"c{number}", 1, place="customer")


async def later_beginning(live: ConsumerHarness) -> None:
    await purged_stream(live)
    await live.publish(OrderPlaced("ann", 5), "c1", 1, place="customer")


GROUNDS = (no_stream, empty_stream, purged_stream, foreign_subjects, later_beginning)


async def there(live: ConsumerHarness) -> None:
    """Make the stream where a test has none."""
    await live.nats.jetstream().add_stream(name=live.stream.name, subjects=[live.stream.subjects])


async def produce(live: ConsumerHarness, first: int) -> None:
    for number in range(first, first + 2):
        await live.publish(OrderPlaced("ann", 5), f"o{number}", 1)


@asynccontextmanager
async def begun(live: ConsumerHarness, *consumers: type) -> AsyncIterator[Heard]:
    """Consumers that have looked at their stream, and write down what they saw of it only when they stop."""
    live.settings = msgspec.structs.replace(live.settings, run=Run(heartbeat_s=600))
    with listening() as heard:
        async with live.running(*consumers):
            yield heard


async def told(live: ConsumerHarness) -> list[str]:
    return [kind for (kind,) in await inspection.rows(live, "incidents", "kind")]


@pytest.mark.parametrize("ground", GROUNDS, ids=lambda ground: ground.__name__)
@pytest.mark.parametrize("when", ["before", "during", "after"])
async def test_a_beginning_is_no_loss(live: ConsumerHarness, ground: Ground, when: str) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await ground(live)
    missing = ground is no_stream

    if when == "before":
        if missing:
            await there(live)
        await produce(live, 0)
    async with begun(live, s.Orders) as heard:
        if missing and when != "before":
            await heard.wait("worker.waiting")
            await there(live)
        await heard.wait("worker.running")
        if when == "during":
            await produce(live, 0)
        await live.settled(s.Orders)
    if when == "after":
        await produce(live, 0)
    async with begun(live, s.Orders) as heard:
        await heard.wait("worker.running")
        await produce(live, 2)
        await live.settled(s.Orders)

    assert await told(live) == []
    assert [row[0] for row in await live.rows("orders")] == ["o0", "o1", "o2", "o3"]


async def test_an_empty_stream_that_is_adopted_has_lost_nothing(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await produce(live, 0)
    await live.settle(s.Orders)
    await no_stream(live)
    await there(live)

    async with begun(live, s.Orders) as heard:
        await heard.wait("stream_guard.stream_replaced")
        async with live.pool.acquire() as connection:
            await Adoption(connection, live.nats, SCHEMA).adopt("Orders", ACT)
        await heard.wait("worker.running")
        await produce(live, 2)
        await live.settled(s.Orders)

    assert await told(live) == ["stream_replaced"]
    assert len(await live.rows("orders")) == 4


async def test_a_reset_on_a_stream_that_was_never_written_has_lost_nothing(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.settle(s.Orders)
    async with live.pool.acquire() as connection:
        await Resetting(connection, live.nats, SCHEMA).reset("Orders", ACT)

    async with begun(live, s.Orders) as heard:
        await heard.wait("worker.running")
        await produce(live, 0)
        await live.settled(s.Orders)

    assert await told(live) == []
    assert len(await live.rows("orders")) == 2
