"""The row of batches that one process has open for one consumer."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.waiting import HANG_S

from projectionist.runner.batch.sequencing import BatchOrder

pytestmark = pytest.mark.asyncio


async def waits(step: asyncio.Future[None] | asyncio.Task[None]) -> bool:
    """Whether `step` still waits when everything that can go on has gone on."""
    for _ in range(5):
        await asyncio.sleep(0)
    return not step.done()


async def test_a_batch_begins_when_the_one_before_it_has_claimed() -> None:
    first = BatchOrder()
    second = BatchOrder(first)
    beginning = asyncio.create_task(second.begin())
    assert await waits(beginning)
    first.claimed()
    assert not await waits(beginning)


async def test_it_locks_positions_when_the_one_before_it_holds_its_own() -> None:
    first = BatchOrder()
    second = BatchOrder(first)
    first.claimed()
    await second.begin()
    locking = asyncio.create_task(second.lock())
    assert await waits(locking)
    first.locked()
    assert not await waits(locking)


async def test_a_batch_that_is_rolled_back_holds_nobody_up() -> None:
    first = BatchOrder()
    second = BatchOrder(first)
    first.over()
    await asyncio.wait_for(second.begin(), HANG_S)
    await asyncio.wait_for(second.lock(), HANG_S)
    await asyncio.wait_for(first.begin(), HANG_S)
    await asyncio.wait_for(first.lock(), HANG_S)


async def test_the_first_batch_waits_for_nobody() -> None:
    await asyncio.wait_for(BatchOrder().begin(), HANG_S)
    await asyncio.wait_for(BatchOrder().lock(), HANG_S)
