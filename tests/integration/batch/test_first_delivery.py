"""What happens to one event, the first time and every time after."""

from __future__ import annotations

from typing import Literal

import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.shop import OrderPaid, OrderPlaced, OrderShipped, shop

from projectionist.core.settings.settings import Policy

pytestmark = pytest.mark.asyncio


async def test_an_event_becomes_a_row_an_inbox_entry_a_position_and_an_intent(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a")
    await live.publish(OrderPaid(500), "o1", 2, id="b")

    await live.settle(s.Orders)

    assert await live.rows("orders") == [("o1", "paid", 500, '["placed", "paid"]')]
    assert await live.states(s.Orders) == {"a": "applied", "b": "applied"}
    assert await live.head(s.Orders, "order/o1") == (2, "clear", 0)
    assert await inspection.rows(live, "intents", "slot", "provider", "state") == [
        ("Receipt", "email", "open")
    ]
    assert await live.unaccounted(s.Orders) == []


@pytest.mark.parametrize("payload", ["never", "always"])
async def test_the_payload_of_a_settled_event_stays_in_the_inbox_where_the_policy_says_so(
    live: ConsumerHarness, payload: Literal["never", "always"]
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    early = await live.publish(OrderPaid(500), "o1", 2, id="b")
    placed = await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a")

    await live.settle(s.Orders, policy=Policy(payload=payload))

    assert await live.states(s.Orders) == {"a": "applied", "b": "applied"}
    stored = {
        seq: (await live.nats.jetstream().get_msg(live.stream.name, seq)).data for seq in (early, placed)
    }
    kept = dict(await inspection.rows(live, "inbox", "seq", "data"))
    assert kept == (stored if payload == "always" else dict.fromkeys(stored))


async def test_the_same_event_under_another_sequence_changes_nothing_and_is_acked(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a")
    await live.publish(OrderPaid(500), "o1", 2, id="b")
    await live.settle(s.Orders)
    again = await live.publish(OrderPaid(500), "o1", 2, id="b")

    await live.settle(s.Orders)

    assert await live.rows("orders") == [("o1", "paid", 500, '["placed", "paid"]')]
    assert await inspection.count_intents(live) == 1
    assert await inspection.duplicates(live) == [(again, "b")]
    assert await live.unaccounted(s.Orders) == []


async def test_a_type_nobody_handles_is_ignored_and_its_version_counts(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 500), "o1", 1, id="a")
    await live.publish(OrderShipped(), "o1", 2, id="b")
    await live.publish(OrderPaid(500), "o1", 3, id="c")

    await live.settle(s.Orders)

    assert await live.states(s.Orders) == {"a": "applied", "b": "ignored", "c": "applied"}
    assert await live.head(s.Orders, "order/o1") == (3, "clear", 0)
