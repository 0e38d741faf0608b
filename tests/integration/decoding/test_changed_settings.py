"""Settings that change between two deliveries of one event."""

from __future__ import annotations

import msgspec
import pytest
from tests.support import inspection
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderPlaced, shop

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize(("before", "after"), [("raw", "canonical"), ("canonical", "raw")])
async def test_an_event_is_still_the_same_when_it_is_hashed_in_another_way(
    live: ConsumerHarness, before: str, after: str
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    old, new = (msgspec.structs.replace(live.policy, hash=how) for how in (before, after))
    async with batch_drivers(live, s.Orders, policy=old) as (driver,):
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1, id="a", seq=1))
    async with batch_drivers(live, s.Orders, policy=new) as (driver,):
        await driver.settle(driver.read(OrderPlaced("ann", 1), "o1", 1, id="a", seq=1, delivered=2))
        await driver.settle(driver.read(OrderPlaced("bob", 1), "o1", 1, id="a", seq=2))

    assert await inspection.incidents(live) == [("identity_reuse", 2)]
    assert await inspection.rows(live, "quarantine", "seq") == [(2,)]
