"""A consumer without order whose events have versions all the same: they mean nothing to it."""

from __future__ import annotations

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPlaced, shop

from projectionist.core.operator import Act, NotThere
from projectionist.core.settings.settings import Policy

pytestmark = pytest.mark.asyncio

ME = Act("ann", "test")


async def test_any_number_of_events_of_one_version_are_applied(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    await live.migrate(s.Orders)
    for text in ("x", "y", "z"):
        await live.publish(OrderNoted(text), "o1", 5)

    await live.settle(s.Orders)

    assert await live.value("select history::text from orders") == '["x", "y", "z"]'
    assert await inspection.count(live, "positions") == 0
    assert await inspection.count_incidents(live) == 0


async def test_failed_events_of_one_version_wait_side_by_side_and_each_is_decided_alone(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream, sequence="unordered")
    s.trouble.poison |= {"bad", "worse", "worst"}
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 5, id="a")
    for name, text in (("b", "bad"), ("c", "worse"), ("d", "worst")):
        await live.publish(OrderNoted(text), "o1", 5, id=name)
    await live.publish(OrderNoted("fine"), "o1", 5, id="e")
    await live.settle(s.Orders, policy=Policy(max_parked_payloads=1))

    assert await live.fetch("select id, version, ordered, data is not null from {s}.parked order by id") == [
        ("b", 5, False, True),
        ("c", 5, False, True),
        ("d", 5, False, True),
    ], "never a reference: no run of an aggregate stands behind it"

    s.trouble.poison -= {"bad"}
    async with live.running(s.Orders), live.verbs(s.Orders) as verbs:
        with pytest.raises(NotThere, match="never seen aggregate"):
            await verbs.retry("order/o1", ME)
        await verbs.retry_entry(("shop", "b"), ME)
        await verbs.discard(("shop", "c"), ME)
        await verbs.edit(("shop", "d"), b'{"text":"mended"}', b"digest", ME)
        await inspection.reaches(0, inspection.count_parked, live)

    assert await live.states(s.Orders) == {
        "a": "applied",
        "b": "applied",
        "c": "discarded",
        "d": "applied",
        "e": "applied",
    }
    assert await live.value("select history::text from orders") == '["placed", "fine", "bad", "mended"]'
    assert await live.unaccounted(s.Orders) == []


async def test_a_decision_about_one_of_them_steps_over_no_version(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    s.trouble.poison.add("bad")
    await live.migrate(s.Orders)
    await live.publish(OrderNoted("bad"), "o1", 5, id="a")
    await live.settle(s.Orders)
    async with live.verbs(s.Orders) as verbs:
        await verbs.discard(("shop", "a"), ME)
    await live.publish(OrderNoted("good"), "o1", 5, id="b")

    await live.settle(s.Orders)

    assert await live.states(s.Orders) == {"a": "discarded", "b": "applied"}
