"""An incident that has been refuted or settled closes by itself, and says by what; what may only be late opens none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import PATIENCE, ConsumerHarness
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.core.operator import Act
from projectionist.core.settings.settings import Policy

pytestmark = pytest.mark.asyncio

ACT = Act("ann", "ticket 7")
FIRST_STORED = msgspec.structs.replace(PATIENCE, ack="after-store")
OPEN = "select count(*) from {s}.incidents where closed is null"
SETTLED = "select kind, settled from {s}.incidents order by number"


async def gap(live: ConsumerHarness, s: SimpleNamespace, policy: Policy = PATIENCE) -> None:
    """An aggregate whose third version never came, and an incident about it."""
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPaid(), "o1", 3)
    async with live.running(s.Orders, policy=policy):
        await live.value_of(OPEN, 1)


@pytest.mark.parametrize("policy", [PATIENCE, FIRST_STORED], ids=["after-commit", "after-store"])
async def test_a_gap_that_fills_itself_closes_its_incident_and_says_by_which_event(
    live: ConsumerHarness, policy: Policy
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await gap(live, s, policy)

    await live.publish(OrderPaid(), "o1", 2, id="late")
    async with live.running(s.Orders, policy=policy):
        await live.value_of(OPEN, 0)

    [(kind, settled)] = await live.fetch(SETTLED)
    assert kind == "lost"
    assert settled.startswith("event late of shop came, at sequence 3, received ")


async def test_what_came_and_failed_is_not_lost(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    await gap(live, s)
    await live.publish(OrderNoted("bad"), "o1", 2, id="late")
    async with live.running(s.Orders):
        await live.value_of(OPEN, 0)


async def test_a_gap_that_was_filled_and_is_there_again_is_told_again(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await gap(live, s)
    await live.value("update {s}.incidents set closed = now(), settled = 'it was filled' returning 1")
    async with live.running(s.Orders):
        async with live.verbs(s.Orders) as verbs:
            await verbs.retry("order/o1", ACT)
        await live.value_of(OPEN, 1)
    assert await live.fetch(SETTLED) == [("lost", None)]


async def accepted(live: ConsumerHarness, s: SimpleNamespace) -> str:
    await gap(live, s)
    async with live.verbs(s.Orders) as verbs:
        await verbs.accept_gap("order/o1", 2, 2, ACT)
    return "accept_gap by ann: ticket 7"


async def discarded(live: ConsumerHarness, s: SimpleNamespace) -> str:
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPaid(), "o1", 3_000_000, id="odd")
    async with live.running(s.Orders):
        await live.value_of(OPEN, 1)
    async with live.verbs(s.Orders) as verbs:
        await verbs.discard(("shop", "odd"), ACT)
    return "discard by ann: ticket 7"


async def reused(live: ConsumerHarness, s: SimpleNamespace) -> str:
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    seq = await live.publish(OrderPlaced("bob", 5), "o1", 1)
    await live.settle(s.Orders)
    assert await live.value(OPEN) == 1
    async with live.quarantine(s.Orders) as verbs:
        await verbs.discard((1, seq), ACT)
    return "what it is about has left quarantine: discarded"


@pytest.mark.parametrize("decided", [accepted, discarded, reused], ids=lambda one: one.__name__)
async def test_the_act_that_settles_a_thing_closes_its_incident(
    live: ConsumerHarness, decided: Callable[[ConsumerHarness, SimpleNamespace], Awaitable[str]]
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    told = await decided(live, s)
    assert await live.value(OPEN) == 0
    assert [settled for _, settled in await live.fetch(SETTLED)] == [told]


async def test_what_may_only_be_late_opens_no_incident_until_it_is_too_late(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish(OrderPaid(), "o1", 3)
    patient = msgspec.structs.replace(PATIENCE, late_s=3600)
    with listening() as heard:
        async with live.running(s.Orders, policy=patient):
            await heard.wait("gap.late")
            assert await live.head(s.Orders, "order/o1") == (1, "gap", 1)
            assert await inspection.count_incidents(live) == 0
            await live.publish(OrderPaid(), "o1", 2)
            await live.settled(s.Orders)
    assert await inspection.count_incidents(live) == 0
    assert await live.head(s.Orders, "order/o1") == (3, "clear", 0)


async def test_no_patience_is_had_with_a_version_that_stands_in_quarantine(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    await live.publish_raw(b"{", {"ce-id": "torn", "ce-aggregateversion": "2"}, "o1")
    await live.publish(OrderPaid(), "o1", 3)
    live.tampered = True
    patient = msgspec.structs.replace(PATIENCE, late_s=3600)
    async with live.running(s.Orders, policy=patient):
        await inspection.reaches(1, inspection.count_incidents, live, kind="lost")
