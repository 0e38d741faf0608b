"""`unknown="fail"`: a type that no handler declares stops its aggregate instead of being stepped over."""

from __future__ import annotations

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderNoted, OrderPlaced, OrderShipped, shop

from projectionist.core.operator import Act
from projectionist.core.settings.settings import Policy
from projectionist.projections import Projection, on

pytestmark = pytest.mark.asyncio

STRICT = Policy(unknown="fail")
ME = Act("ann", "test")


async def shipped_in_between(live: ConsumerHarness) -> None:
    """Placed, shipped, noted; and another order."""
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a")
    await live.publish(OrderShipped("dhl"), "o1", 2, id="b")
    await live.publish(OrderNoted("late"), "o1", 3, id="c")
    await live.publish(OrderPlaced("bob", 7), "o2", 1, id="d")


async def test_an_unknown_type_is_the_failed_head_of_its_aggregate_alone(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await shipped_in_between(live)

    await live.settle(s.Orders, policy=STRICT)

    assert await live.head(s.Orders, "order/o1") == (1, "waiting", 2)
    assert await live.head(s.Orders, "order/o2") == (1, "clear", 0)
    assert await inspection.rows(live, "parked", "version", "cause", "error", order="version") == [
        (2, "failed", "no handler declares its type"),
        (3, "blocked", None),
    ]
    assert await live.unaccounted(s.Orders) == []


async def test_once_it_may_be_ignored_a_retry_steps_over_it_and_the_rest_follows(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await shipped_in_between(live)
    await live.settle(s.Orders, policy=STRICT)

    async with live.running(s.Orders), live.verbs(s.Orders) as verbs:
        await verbs.retry("order/o1", ME)
        await inspection.reaches(0, inspection.count_parked, live)

    assert await live.states(s.Orders) == {"a": "applied", "b": "ignored", "c": "applied", "d": "applied"}
    assert await live.head(s.Orders, "order/o1") == (3, "clear", 0)


async def test_new_code_that_handles_the_type_applies_it_in_its_place(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await shipped_in_between(live)
    await live.settle(s.Orders, policy=STRICT)

    class Orders(
        Projection,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
        effects="beginning",
    ):
        """The same table, by code that knows of shipping."""

        order_id: str
        status: str = "new"
        cents: int = 0
        history: list[str] = []

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.history.append("placed")

        @on(OrderShipped)
        def shipped(self, event: OrderShipped) -> None:
            self.history.append(f"shipped by {event.carrier}")

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.history.append(event.text)

    await live.migrate(Orders)
    async with live.running(Orders, policy=STRICT):
        await inspection.reaches(0, inspection.count_parked, live)

    assert await live.value("select history::text from orders where order_id = 'o1'") == (
        '["placed", "shipped by dhl", "late"]'
    )


async def test_without_order_an_unknown_type_waits_alone(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    await live.migrate(s.Orders)
    await shipped_in_between(live)

    await live.settle(s.Orders, policy=STRICT)

    assert await live.states(s.Orders) == {"a": "applied", "b": "parked", "c": "applied", "d": "applied"}
    assert await live.value("select due is null and not ordered from {s}.parked")
