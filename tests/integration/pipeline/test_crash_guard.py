"""Handlers that no exception tells of: they end their process, or never come back."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

import pytest
from tests.integration.process.test_peers import quick, running
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.peers import peer_takes
from tests.support.process import projectionist
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import eventually, listening

from projectionist.core import testpoints
from projectionist.core.settings.settings import Policy
from projectionist.runner.pipeline.crash_guard import SUSPECT_FROM

pytestmark = pytest.mark.asyncio


async def head(harness: ConsumerHarness, aggregate: str) -> tuple[object, ...]:
    rows = await harness.fetch(
        "select p.version, p.head, p.parked from {s}.positions p join {s}.consumers c on c.number = p.consumer"
        " where c.name = 'Orders' and p.aggregate = $1",
        aggregate,
    )
    return rows[0] if rows else ()


STORES = {
    "PROJECTIONIST_CONSUMER_DEFAULTS__ACK": "after-store",
    "PROJECTIONIST_TELEMETRY__ALLOW_UNMONITORED": "true",
    "PROJECTIONIST_RUN__LEASE_S": "1",
}


async def survived(harness: ConsumerHarness, env: Mapping[str, str] | None = None, *, starts: int = 9) -> int:
    """Start the process anew whenever it has died, until it lives on; how often it died."""
    for deaths in range(starts):
        async with running(harness, "Orders", pause_at=None, **(env or {})) as child:

            async def over() -> bool:
                done = await head(harness, "order/bad") in [(1, "waiting", 1), (1, "waiting", 2)]
                return done or child.has_ended

            await eventually(over)
            if not child.has_ended:
                await harness.settled(shop(harness.stream).Orders)
                # A mark goes in a transaction of its own, behind the batch that it was made for.
                await inspection.reaches(0, inspection.count_marks, harness, "crash_marks")
                child.signal(signal.SIGTERM)
                assert (await child.ended()).code == 0
                return deaths
            assert (await child.ended()).code == -signal.SIGKILL
    raise AssertionError(f"{starts} processes were not enough")


@pytest.mark.parametrize("sequence", ["contiguous", "unordered"])
async def test_what_is_stored_after_a_process_has_ended_uncleanly_is_not_tried_one_by_one(
    live: ConsumerHarness, sequence: Any
) -> None:
    s = shop(live.stream, sequence=sequence)
    await live.migrate(s.Orders)
    await live.settle(s.Orders, policy=Policy(ack="after-store"))
    await live.pool.execute(
        f"update {SCHEMA}.runners set stopped = null, beat = clock_timestamp() - interval '10 minutes'"
    )
    for number in range(9):
        await live.publish(OrderPlaced("ann", number), f"o{number}", 1)

    with listening() as heard:
        await live.settle(s.Orders, policy=Policy(ack="after-store"))

    assert heard.counts["careful.marked"] == 0
    assert len(await live.rows("orders")) == 9


async def test_a_process_tries_one_suspect_at_a_time_whichever_consumer_has_it(live: ConsumerHarness) -> None:
    """What ends the process then has the only mark: an event of another consumer beside it would be failed with it."""
    s = shop(live.stream)
    quick(live)
    await live.migrate(s.Orders, s.Spend)
    await live.settle(s.Orders, s.Spend)
    for number in range(9):
        await live.publish(OrderPlaced("ann", number), f"o{number}", 1)
    for consumer in ("Orders", "Spend"):
        durable = await inspection.durable_name(live, consumer)
        for _ in range(SUSPECT_FROM - 1):
            for message in await peer_takes(live.nats.jetstream(), live.stream.name, durable, 9):
                await message.nak()
    await live.pool.execute(
        f"update {SCHEMA}.runners set stopped = null, beat = clock_timestamp() - interval '10 minutes'"
    )
    moments: list[str] = []
    stop = testpoints.listen(moments.append)

    await live.settle(s.Orders, s.Spend)

    stop()
    tries = [moment for moment in moments if moment.startswith("careful.")]
    assert tries == 18 * ["careful.marked", "careful.unmarked"]


@pytest.mark.parametrize("env", [{}, STORES], ids=["acked after its commit", "stored first"])
async def test_an_event_that_kills_three_processes_is_failed_and_all_others_are_applied(
    live: ConsumerHarness, env: dict[str, str]
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    quick(live)
    await live.publish(OrderPlaced("ann", 1), "bad", 1)
    await live.publish(OrderNoted("kill"), "bad", 2, id="killer")
    await live.publish(OrderPaid(), "bad", 3)
    for number in range(3):
        await live.publish(OrderPlaced("ann", number), f"o{number}", 1)
        await live.publish(OrderPaid(), f"o{number}", 2)

    deaths = await survived(live, env)

    assert 3 <= deaths <= 6
    assert await inspection.rows(live, "parked", "version", "cause", "error_class", "error", version=2) == [
        (2, "failed", "crashed", "3 tries of it ended the process or its consumer")
    ]
    assert [row[:2] for row in await live.rows("orders")] == [
        ("bad", "placed"),
        *[(f"o{number}", "paid") for number in range(3)],
    ]
    assert await inspection.count_marks(live, "crash_marks") == 0
    assert await live.unaccounted(s.Orders) == []


async def test_a_parked_event_that_kills_is_failed_too_and_not_tried_for_ever(live: ConsumerHarness) -> None:
    """No redelivery brings it: it is drained when the gap before it is filled."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    quick(live)
    await live.publish(OrderNoted("kill"), "bad", 2, id="killer")
    async with running(live, "Orders") as child:
        await child.heard("worker.running")
        await live.settled(s.Orders)
        child.signal(signal.SIGTERM)
        await child.ended()
    await live.publish(OrderPlaced("ann", 1), "bad", 1)

    await survived(live)

    assert await inspection.rows(live, "parked", "id", "error_class") == [("killer", "crashed")]
    assert [row[:2] for row in await live.rows("orders")] == [("bad", "placed")]


async def test_a_handler_that_never_returns_ends_its_process_and_tells_where(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "bad", 1)
    await live.publish(OrderNoted("hang"), "bad", 2)
    environment = {
        "PROJECTIONIST_POSTGRES__URL": live.database,
        "PROJECTIONIST_NATS__URL": live.servers.nats_url,
        "PROJECTIONIST_RUN__WATCHDOG_TIMEOUT_S": "1",
        "HELD_STREAM": live.stream.name,
    }

    async with projectionist(
        "run", "tests.support.parking_shop:app", "--only", "Orders", env=environment
    ) as child:
        await child.heard("batch.judged")
        ended = await child.ended()

    assert ended.code == 1
    assert "parking_shop.py" in ended.err
    assert "in meet" in ended.err
    assert "hang" not in ended.err.partition("Timeout (")[2]  # the value, in what tells where
    assert await inspection.count_inbox(live) == 0
