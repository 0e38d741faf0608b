"""`projectionist audit-stream` on a real stream."""

from __future__ import annotations

import json

import pytest
from tests.support.consumer_harness import ConsumerHarness
from tests.support.process import projectionist
from tests.support.shop import OrderPaid, OrderPlaced
from tests.support.shop_app import APP, environment

pytestmark = pytest.mark.asyncio


async def audit(live: ConsumerHarness, *words: str) -> tuple[int, str]:
    async with projectionist("audit-stream", APP, "Orders", *words, env=environment(live)) as child:
        ended = await child.ended()
        return ended.code, ended.out or ended.err


async def test_holes_and_reuse_are_listed_and_repeats_are_not_held_against_anybody(
    live: ConsumerHarness,
) -> None:
    await live.publish(OrderPlaced("ann", 1), "good", 1, id="g1")
    await live.publish(OrderPaid(), "good", 2, id="g2")
    await live.publish(OrderPaid(), "good", 2, id="g2")
    assert await audit(live) == (
        0,
        f"{live.stream.name} 1..3: 3 events of 1 aggregates, 1 came again as they were\n",
    )
    await live.publish(OrderPlaced("ann", 1), "torn", 1, id="t1")
    await live.publish(OrderPaid(), "torn", 4, id="t4")
    await live.publish(OrderPaid(), "good", 2, id="thief")
    await live.publish_raw(b"x", {"ce-id": "unreadable"}, "x")

    code, text = await audit(live)
    assert code == 3
    assert "missing: order/torn, versions 2 to 3" in text
    assert "used twice: order/good, version 2: g2 of shop at sequence 2, thief of shop at sequence 6" in text
    assert "1 cannot be read" in text

    code, text = await audit(live, "--json", "--last", "5")
    found = json.loads(text)
    assert (found["events"], found["reused"]) == (5, [])
    assert found["holes"] == [{"aggregate": "order/torn", "first": 2, "last": 3}]
