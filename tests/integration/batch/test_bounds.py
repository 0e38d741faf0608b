"""One transaction stays small enough to be finished, however much became ready at once."""

from __future__ import annotations

import pytest
from tests.support.batch_driver import batch_drivers
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.runner.batch import transaction

pytestmark = pytest.mark.asyncio


async def test_many_heads_that_go_on_at_once_share_what_one_transaction_drains(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each alone may drain its run; together they would outlast the session's patience, again and again."""
    monkeypatch.setattr(transaction, "DRAIN_EVENTS", 6)
    s = shop(live.stream)
    await live.migrate(s.Orders)
    orders = ("o1", "o2", "o3")
    async with batch_drivers(live, s.Orders) as (driver,):
        parked = [driver.read(OrderNoted(f"n{v}"), o, v) for o in orders for v in range(2, 8)]
        await driver.settle(*parked)
        (applied,) = await driver.settle(*(driver.read(OrderPlaced("ann", 1), o, 1) for o in orders))

        assert len(applied.writes.unparked) == 6
        assert [await live.head(s.Orders, f"order/{o}") for o in orders] == [(3, "draining", 4)] * 3
        with listening() as heard:
            await driver.settle_due()
        assert heard.counts["batch.committed"] == 2

    assert [row[3] for row in await live.rows("orders")] == [
        '["placed", "n2", "n3", "n4", "n5", "n6", "n7"]'
    ] * 3


async def test_old_versions_of_many_aggregates_are_looked_up_without_their_other_versions(
    live: ConsumerHarness,
) -> None:
    """Events published anew under other ids: each batch asks who holds which version of which aggregate."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with batch_drivers(live, s.Orders) as (driver,):
        for start in range(0, 60, 20):
            await driver.settle(
                *(
                    driver.read(OrderNoted("n"), f"o{o}", v)
                    for o in range(60)
                    for v in range(start + 1, start + 21)
                )
            )
        store, _ = await driver.session.ready()
        asked = [(f"order/o{n}", n + 1) for n in range(60)]
        known = [("shop", f"o{n}:{n + 1}") for n in range(60)]

        found = await store.versions(asked)
        assert sorted((row["aggregate"], row["version"]) for row in found) == sorted(asked)
        assert set(await store.known(known)) == set(known)
