"""What left quarantine and what was corrected keep their content for a time; what needs it after that is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.erasing import ACT, erase, holders
from tests.support.rebuilding import RebuildHarness
from tests.support.retention import DAY, age, purge, sent, went
from tests.support.servers import SCHEMA
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop

from projectionist.core.content_hash import data_hash
from projectionist.runner.admin.reset import CannotReset, Resetting
from projectionist.runner.batch.decisions import CorrectionGone

pytestmark = pytest.mark.asyncio
WORD = "c4nary"


async def quarantined(live: ConsumerHarness, s: Any) -> None:
    """Put two events aside that lack their version; one is corrected and comes out, one is discarded."""
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="e1")
    await live.publish(OrderNoted(WORD), "o1", None, id="e2")
    await live.publish(OrderNoted(WORD), "o2", None, id="e3")
    async with live.running(s.Orders):
        await live.settled(s.Orders)
        async with live.quarantine(s.Orders) as verbs:
            await verbs.edit((1, 2), ACT, headers={"ce-aggregateversion": "2"})
            await verbs.discard((1, 3), ACT)
        await inspection.reaches(1, inspection.count_quarantined, live, state="released")


async def test_what_left_quarantine_is_emptied_in_time_and_comes_out_of_a_reset_again(
    live: ConsumerHarness,
) -> None:
    s, builders = shop(live.stream), RebuildHarness(live)
    await quarantined(live, s)
    before = await live.rows("orders")
    assert went(await purge(live, s.Orders)) == {}
    await age(live, 31)
    assert went(await purge(live, s.Orders, dry_run=True))["quarantine"] == 2
    await purge(live, s.Orders)
    assert (
        await inspection.rows(live, "quarantine", "headers", "data", "detail")
        == [(None, None, "no longer kept")] * 2
    )
    await builders.rebuild(s.Orders)
    assert await live.rows("orders") == before

    async with live.connected() as connection:
        await Resetting(connection, live.nats, SCHEMA).reset("Orders", ACT, partial=True)
    await live.settle(s.Orders)
    assert await live.rows("orders") == before
    assert sorted(await inspection.rows(live, "quarantine", "seq", "state")) == [
        (2, "released"),
        (3, "discarded"),
    ]


async def corrected(live: ConsumerHarness, s: Any) -> None:
    """Have an event applied as somebody has corrected it."""
    await live.migrate(s.Orders)
    s.trouble.poison.add("wrong")
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="e1")
    await live.publish(OrderNoted("wrong"), "o1", 2, id="e2")
    await live.settle(s.Orders)
    data = b'{"text": "right"}'
    async with live.verbs(s.Orders) as verbs:
        await verbs.edit(("shop", "e2"), data, data_hash(data), ACT)
    await live.settle(s.Orders)
    s.trouble.poison.clear()
    assert (await live.rows("orders"))[0][3] == '["placed", "right"]'


async def test_a_correction_that_was_not_read_yet_is_kept(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", None, id="e1")
    await live.settle(s.Orders)
    async with live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, 1), ACT, headers={"ce-aggregateversion": "1"})
    await age(live, 100)
    assert went(await purge(live, s.Orders, decision_payload_retention_s=DAY)) == {}
    async with live.running(s.Orders):
        await inspection.reaches(1, inspection.count_quarantined, live, state="released")
    assert await live.states(s.Orders) == {"e1": "applied"}


async def test_corrections_stay_unless_somebody_says_how_long(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await corrected(live, s)
    await age(live, 4000)
    assert "decisions" not in went(await purge(live, s.Orders))
    await RebuildHarness(live).rebuild(s.Orders)
    assert (await live.rows("orders"))[0][3] == '["placed", "right"]'


async def test_what_would_repeat_a_correction_that_is_gone_is_refused_until_it_is_erased(
    live: ConsumerHarness,
) -> None:
    s, builders = shop(live.stream), RebuildHarness(live)
    await corrected(live, s)
    await age(live, 31)
    assert went(await purge(live, s.Orders, decision_payload_retention_s=30 * DAY))["decisions"] == 1
    for again in (builders.rebuild, builders.verify):
        with pytest.raises(CorrectionGone, match=r"decision 1 .* no longer kept"):
            await again(s.Orders)
    await builders.give_up(s.Orders)
    with pytest.raises(CannotReset, match="1 events were applied as somebody had corrected them"):
        async with live.connected() as connection:
            await Resetting(connection, live.nats, SCHEMA).reset("Orders", ACT)
    await live.publish(OrderPaid(), "o1", 3, id="e3")
    await live.settle(s.Orders)
    await sent(live)

    await erase(live, s.Orders, aggregate="order/o1")
    assert (await builders.verify(s.Orders)).drifted == 0
    await builders.rebuild(s.Orders)
    assert await live.rows("orders") == []
    assert await holders(live, "right") == []
