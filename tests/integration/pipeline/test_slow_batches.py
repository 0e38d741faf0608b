"""Handlers that take their time: a batch that outlasts its session must not be begun again for ever."""

from __future__ import annotations

import time

import msgspec
import pytest
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted

from projectionist.core.postgres import connections
from projectionist.projections import Projection, on
from projectionist.runner.batch.times import BatchTimes

pytestmark = pytest.mark.asyncio

IDLE_S = 1.5
"""How long a session may idle here: much longer than a busy machine takes for what is no handler."""
IMPATIENT = BatchTimes(long_s=0.75 * IDLE_S)


def slow(live: ConsumerHarness) -> type:
    """A projection of handlers that keep the session idle."""

    class Slow(
        Projection,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        table="slow",
        key="order_id",
    ):
        order_id: str
        notes: int = 0

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.notes += 1
            time.sleep(1.5 * IDLE_S if event.text == "slow" else 0.15 * IDLE_S)

    return Slow


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that may idle for a moment only."""
    monkeypatch.setitem(connections.SESSION, "idle_in_transaction_session_timeout", f"{IDLE_S}s")


async def test_a_batch_that_takes_longer_than_a_session_may_idle_is_settled_in_parts(
    live: ConsumerHarness,
) -> None:
    cls = slow(live)
    await live.migrate(cls)
    async with batch_drivers(live, cls, times=IMPATIENT) as (driver,):
        applied = await driver.settle(*(driver.read(OrderNoted("n"), f"o{n}", 1) for n in range(10)))

    assert len(applied) > 1
    assert await live.value("select count(*) from slow") == 10


async def test_an_aggregate_that_drains_for_longer_than_a_session_may_idle_drains_in_parts(
    live: ConsumerHarness,
) -> None:
    cls = slow(live)
    await live.migrate(cls)
    policy = msgspec.structs.replace(live.policy, drain_batch_size=16)
    async with batch_drivers(live, cls, policy=policy, times=IMPATIENT) as (driver,):
        await driver.settle(*(driver.read(OrderNoted("n"), "o1", n) for n in range(2, 14)))
        await driver.settle(driver.read(OrderNoted("n"), "o1", 1))
        await driver.settle_due()

    assert await live.rows("slow") == [("o1", 13)]


async def test_an_event_whose_handler_outlasts_what_a_session_may_idle_is_failed_alone(
    live: ConsumerHarness,
) -> None:
    cls = slow(live)
    await live.migrate(cls)
    async with batch_drivers(live, cls, times=IMPATIENT) as (driver,):
        texts = ["n"] * 4 + ["slow"] + ["n"] * 5
        await driver.settle(*(driver.read(OrderNoted(text), f"o{n}", 1) for n, text in enumerate(texts)))

    assert await live.value("select count(*) from slow") == 9
    assert (await live.head(cls, "order/o4"))[1] == "failed"
    assert await live.value("select error_class in ('session', 'alone') from {s}.parked") is True
