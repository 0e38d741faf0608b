"""Decisions of before a reset are obeyed when events come again: skips, gaps, winners, discards, edits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.cli import Cli
from tests.support.consumer_harness import ConsumerHarness
from tests.support.resetting import ACT, WHY, history
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, mended, shop

from projectionist.core.settings.settings import Policy

pytestmark = pytest.mark.asyncio


async def decide_all(live: ConsumerHarness, s: Any) -> None:
    """One of each decision: a skip, a discard, an edit, an accepted gap and, by rule, a winner; all mended then."""
    s.trouble.poison.update({"skipped", "edited"})
    await live.publish(OrderPlaced("ann", 1), "skip", 1)
    await live.publish(OrderNoted("skipped"), "skip", 2, id="skipped")
    await live.publish(OrderNoted("discarded"), "skip", 3, id="discarded")
    await live.publish(OrderNoted("end"), "skip", 4)
    await live.publish(OrderPlaced("ann", 2), "edit", 1)
    await live.publish(OrderNoted("edited"), "edit", 2, id="edited")
    await live.publish(OrderNoted("end"), "edit", 3)
    await live.publish(OrderPlaced("ann", 3), "gap", 1)
    await live.publish(OrderNoted("end"), "gap", 3)
    await live.publish(OrderNoted("first"), "won", 1, id="first")
    await live.settle(s.Orders)
    await live.publish(OrderNoted("second"), "won", 1, id="second")
    async with live.verbs(s.Orders) as verbs:
        await verbs.discard(("shop", "discarded"), ACT)
        await verbs.skip("order/skip", ACT)
        await verbs.edit(("shop", "edited"), b'{"text": "fine"}', b"digest", ACT)
        await verbs.accept_gap("order/gap", 2, 2, ACT)
    await live.settle(s.Orders)
    await live.publish(OrderNoted("late"), "gap", 2, id="late")
    await live.settle(s.Orders)
    s.trouble.poison.clear()


@pytest.mark.parametrize("limits", [1, 1000], ids=["one at a time", "all at once"])
async def test_decisions_of_before_are_obeyed(live: ConsumerHarness, cli: Cli, limits: int) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await decide_all(live, s)
    before, incidents = (
        await live.rows("orders"),
        await inspection.incidents(live),
    )
    heads = "select aggregate, version, head, parked from {s}.positions order by 1"
    stood = await live.fetch(heads)

    await cli.done("reset", "Orders", "--yes", *WHY)
    await live.settle(s.Orders, limits=msgspec.structs.replace(live.settings.batch, max_rows=limits))

    assert await live.rows("orders") == before
    assert await live.fetch(heads) == stood
    assert await inspection.incidents(live) == incidents
    states = await live.states(s.Orders)
    assert states["late"] in ("skipped", "discarded"), "stepped over: after the others, or among them"
    assert {name: states[name] for name in ("skipped", "discarded", "edited", "second")} == {
        "skipped": "discarded",
        "discarded": "discarded",
        "edited": "applied",
        "second": "quarantined",
    }


@pytest.mark.parametrize(
    "policy",
    [
        Policy(late_s=0),
        Policy(ack="after-store", late_s=0),
        Policy(ack="after-store", late_s=0, max_parked_payloads=1, ack_wait_s=10),
    ],
    ids=["applied", "stored first", "stored as references"],
)
@pytest.mark.parametrize("limits", [1, 1000], ids=["one at a time", "all at once"])
async def test_a_gap_of_before_is_passed_again_though_nothing_ever_came(
    live: ConsumerHarness, cli: Cli, limits: int, policy: Policy
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    for version in (1, 2, 5, 8):
        await live.publish(OrderNoted(str(version)), "gap", version)
    await live.settle(s.Orders)
    async with live.verbs(s.Orders) as verbs:
        await verbs.accept_gap("order/gap", 3, 4, ACT)
    await live.settle(s.Orders)
    async with live.verbs(s.Orders) as verbs:
        await verbs.accept_gap("order/gap", 6, 7, ACT)
    await live.settle(s.Orders)
    assert await history(live, "gap") == ["1", "2", "5", "8"]

    await live.publish(OrderNoted("late"), "gap", 6, id="late")
    await cli.done("reset", "Orders", "--yes", *WHY)
    batch = msgspec.structs.replace(live.settings.batch, max_rows=limits)
    async with live.running(s.Orders, limits=batch, policy=policy):
        await live.settled(s.Orders)

    assert await history(live, "gap") == ["1", "2", "5", "8"]
    assert await live.head(s.Orders, "order/gap") == (8, "clear", 0)


async def test_a_winner_of_before_is_obeyed_when_its_rival_comes_first(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await decide_all(live, s)
    await live.value(
        "update {s}.decisions set id = 'second' where kind = 'winner' returning 1"
    )  # as if the second had been met first, by another process
    await cli.done("reset", "Orders", "--yes", *WHY)
    await live.settle(s.Orders)

    assert await history(live, "won") == ["second"]
    assert (await live.states(s.Orders))["first"] == "quarantined"


async def test_decisions_are_obeyed_for_what_is_parked_on_the_way_too(
    live: ConsumerHarness, cli: Cli
) -> None:
    """Stored first, all pass through the parked ones, some as references to the stream's bytes."""
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await decide_all(live, s)
    await cli.done("reset", "Orders", "--yes", *WHY)
    async with live.running(
        s.Orders, policy=Policy(ack="after-store", max_parked_payloads=1, ack_wait_s=10, late_s=0)
    ):
        await live.settled(s.Orders)
    assert await history(live, "skip") == ["placed", "end"]
    assert await history(live, "edit") == ["placed", "fine", "end"]
    assert await history(live, "gap") == ["placed", "end"]


async def test_without_order_discards_and_edits_are_obeyed(live: ConsumerHarness, cli: Cli) -> None:
    s = shop(live.stream, sequence="unordered")
    await live.migrate(s.Orders)
    s.trouble.poison.update({"a", "b"})
    for name in "abc":
        await live.publish(OrderNoted(name), "o1", None, id=name)
    await live.settle(s.Orders)
    async with live.verbs(s.Orders) as verbs:
        await verbs.discard(("shop", "a"), ACT)
        await verbs.edit(("shop", "b"), b'{"text": "fine"}', b"digest", ACT)
    await live.settle(s.Orders)
    s.trouble.poison.clear()
    await cli.done("reset", "Orders", "--yes", *WHY)
    await live.settle(s.Orders)

    assert sorted(await history(live, "o1")) == ["c", "fine"]
    assert await live.states(s.Orders) == {"a": "discarded", "b": "applied", "c": "applied"}


async def test_what_came_out_of_quarantine_comes_out_again(live: ConsumerHarness, cli: Cli) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a")
    bad = await live.publish(OrderPaid(5), "o1", None, id="b")
    await live.publish(OrderNoted("end"), "o1", 3, id="c")
    await live.settle(s.Orders)
    await cli.done("quarantine", "edit", str(bad), "--header", "ce-aggregateversion=2", *WHY)
    async with live.running(s.Orders):
        await inspection.reaches(3, inspection.head_version, live)
    await cli.done("reset", "Orders", "--yes", *WHY)
    async with live.running(s.Orders):
        await inspection.reaches(3, inspection.head_version, live)
        await live.settled(s.Orders)

    assert await history(live, "o1") == ["placed", "paid", "end"]
    assert await inspection.value(live, "quarantine", "state") == "released"


async def test_new_code_rebuilds_after_a_reset_with_the_same_decisions(
    live: ConsumerHarness, cli: Cli
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await decide_all(live, s)
    before = await live.rows("orders")
    await cli.done("reset", "Orders", "--yes", *WHY)
    await live.settle(mended(live.stream))
    assert await live.rows("orders") == before
