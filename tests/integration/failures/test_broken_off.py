"""An event that ends its consumer by an error is found like one that ends its process."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.load import tuned
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.waiting import eventually

from projectionist.core.retry_policy import RetryPolicy
from projectionist.runner.batch.sequencing import BatchOrder
from projectionist.runner.batch.types import Batch, BatchResult
from projectionist.runner.pipeline.batch_retry import BatchSettler
from projectionist.runner.pipeline.loop import Pipeline

pytestmark = pytest.mark.asyncio


async def test_an_event_whose_error_ends_its_consumer_is_failed_and_others_are_applied(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, applied = BatchSettler.settle, Pipeline._applied

    failed: list[Batch] = []

    def stumble(batch: Batch) -> None:
        if batch.refusal is not None:
            failed.append(batch)
        elif not failed and any(one.id == "bad" for one in batch.deliveries):
            raise KeyError("what nobody foresaw")

    async def settled(
        self: BatchSettler, batch: Batch, batch_order: BatchOrder | None = None
    ) -> list[BatchResult]:
        stumble(batch)
        return await settle(self, batch, batch_order)

    async def whole(self: Pipeline, guard: Any, batch: Batch, batch_order: BatchOrder) -> list[BatchResult]:
        if self._suspicion.until is None:
            stumble(batch)
        return await applied(self, guard, batch, batch_order)

    monkeypatch.setattr(BatchSettler, "settle", settled)
    monkeypatch.setattr(Pipeline, "_applied", whole)
    soon = RetryPolicy(initial_s=0.01, maximum_s=0.1)
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)
    await live.publish(OrderNoted("n"), "o1", 2, id="bad")
    for number in range(2, 6):
        await live.publish(OrderPlaced("ann", 1), f"o{number}", 1)
    tuned(live, policy={"ack_wait_s": 1.0}, run={"heartbeat_s": 60.0})

    async def told() -> bool:
        failed = "select error from {s}.parked where id = 'bad' and cause = 'failed'"
        return any("tries of it ended" in str(row) for row in await live.fetch(failed))

    async with live.running(s.Orders, supervised=True, again=soon):
        await eventually(told)
    assert len(await live.rows("orders")) == 5
