"""Acks: none before its commit, none after its deadline, none for what another has to have."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderPaid, OrderPlaced, shop
from tests.support.waiting import HANG_S, listening

from projectionist.core.settings.settings import BatchLimits as Limits
from projectionist.projections import definition
from projectionist.runner.batch.times import BatchTimes
from projectionist.runner.database.barrier import barrier_key

pytestmark = pytest.mark.asyncio


async def test_a_batch_beyond_the_ack_wait_is_not_acked_and_its_redelivery_is_absorbed(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await live.publish(OrderPlaced("ann", 500), "o1", 1)
    key = barrier_key("projectionist", await inspection.consumer_number(live))
    policy = msgspec.structs.replace(live.policy, ack_wait_s=1)
    async with live.acks(s.Orders) as acks, live.pool.acquire() as taker:
        with listening() as heard:
            async with live.running(s.Orders, policy=policy, times=BatchTimes(progress_share=100.0)):
                await heard.wait("worker.running")
                async with taker.transaction():  # an exclusive taker holds the batch up past its ack wait
                    await taker.execute("select pg_advisory_xact_lock($1)", key)
                    again = await live.publish(OrderPaid(), "o1", 2)
                    await redelivered(live, s.Orders)
                await live.settled(s.Orders)

    assert [one for one in acks if one == (seq, 1) or one == (again, 1)] == []
    assert {one for one, _ in acks} == {seq, again}
    assert await live.rows("orders") == [("o1", "paid", 500, '["placed", "paid"]')]
    assert await inspection.count_intents(live) == 1
    assert await inspection.count_outcomes(live, "redelivered") >= 1


async def redelivered(live: ConsumerHarness, cls: type) -> None:
    """Wait until the broker has lost its patience with both events."""
    durable = await inspection.durable_name(live, definition(cls).name)
    async with asyncio.timeout(HANG_S):
        while True:
            info = await live.nats.jetstream().consumer_info(live.stream.name, durable)
            if (info.num_redelivered or 0) >= 2:
                return
            await asyncio.sleep(0.05)


async def test_nothing_is_acked_before_its_commit(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    key = barrier_key("projectionist", await inspection.consumer_number(live))
    async with live.acks(s.Orders) as acks, live.pool.acquire() as taker:
        with listening() as heard:
            async with live.running(s.Orders, limits=Limits(max_rows=1)):
                await heard.wait("worker.running")
                async with taker.transaction():
                    await taker.execute("select pg_advisory_xact_lock($1)", key)
                    for version in (1, 2, 3):
                        await live.publish(OrderPaid(), "o1", version)
                    await live.blocked()
                    assert heard.counts["batch.entered"] == 0
                    await live.nats.flush()
                    assert acks == []
                await live.settled(s.Orders)

    assert sorted(acks) == [(1, 1), (2, 1), (3, 1)]


async def test_what_was_received_and_not_taken_is_given_back_at_once_when_a_runner_stops(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    policy = msgspec.structs.replace(live.policy, ack_wait_s=5 * HANG_S)
    for number in range(50):
        await live.publish(OrderPaid(), f"o{number}", 1)
    with listening() as heard:
        async with live.running(s.Orders, policy=policy, limits=Limits(max_rows=5)):
            await heard.wait("batch.acked")
    done = await inspection.count_inbox(live)
    assert 0 < done < 50

    await live.settle(s.Orders, policy=policy)  # within its patience, which is far below the ack wait

    assert await inspection.count_inbox(live) == 50
    assert await live.unaccounted(s.Orders) == []
