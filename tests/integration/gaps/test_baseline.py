"""Where an aggregate begins: at its first version, at a given one, or where the stream begins."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from nats.aio.msg import Msg
from tests.support import inspection
from tests.support.consumer_harness import UNHURRIED, ConsumerHarness
from tests.support.peers import peer_takes
from tests.support.shop import OrderNoted, OrderPlaced, shop
from tests.support.waiting import HANG_S, eventually

from projectionist.core.operator import Act
from projectionist.core.settings.settings import Policy
from projectionist.projections import Projection, definition, on
from projectionist.runner.batch.inbox_store import InboxStore
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import BrokerError, StoredMessage

pytestmark = pytest.mark.asyncio

SOON = Policy(gap_fetch_delay_ms=20, late_s=0, ack_wait_s=5)


async def publish(live: ConsumerHarness, *versions: int, aggregate: str = "o1") -> dict[int, int]:
    """One note a version; the stream sequence of each."""
    return {v: await live.publish(OrderNoted(f"n{v}"), aggregate, v, id=f"{aggregate}.{v}") for v in versions}


async def begun(live: ConsumerHarness) -> list[tuple[Any, ...]]:
    """What was stepped over by where the stream begins."""
    return await inspection.rows(
        live, "decisions", "aggregate", "version", "upto", order="number", kind="baseline"
    )


async def history(live: ConsumerHarness, aggregate: str = "o1") -> str:
    return str(await live.value("select history::text from orders where order_id = $1", aggregate))


async def another_takes(live: ConsumerHarness, most: int) -> list[Msg]:
    """The next events go to a process that does not come back: this one sees only what follows them."""
    durable = await inspection.durable_name(live, "Orders")
    return await peer_takes(live.nats.jetstream(), live.stream.name, durable, most)


async def test_with_a_number_versions_below_it_are_stale_and_no_gap(live: ConsumerHarness) -> None:
    s = shop(live.stream, baseline=3)
    await live.migrate(s.Orders)
    await publish(live, 1, 2, 3, 4)

    await live.settle(s.Orders)

    assert await history(live) == '["n3", "n4"]'
    assert await live.states(s.Orders) == {
        "o1.1": "stale",
        "o1.2": "stale",
        "o1.3": "applied",
        "o1.4": "applied",
    }
    assert await live.head(s.Orders, "order/o1") == (4, "clear", 0)
    assert await inspection.count_incidents(live) == 0
    assert await live.unaccounted(s.Orders) == []


async def test_with_a_number_what_follows_it_waits_for_it(live: ConsumerHarness) -> None:
    s = shop(live.stream, baseline=3)
    await live.migrate(s.Orders)
    await publish(live, 4)
    await live.settle(s.Orders, policy=UNHURRIED)
    assert await live.head(s.Orders, "order/o1") == (2, "gap", 1)

    await publish(live, 3)
    await live.settle(s.Orders, policy=SOON)

    assert await history(live) == '["n3", "n4"]'


async def test_with_any_an_aggregate_begins_where_the_stream_does_and_that_is_recorded(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream, baseline="any")
    await live.migrate(s.Orders)
    seqs = await publish(live, 1, 2, 3, 4)
    await publish(live, 1, aggregate="o2")
    await live.nats.jetstream().purge_stream(live.stream.name, seq=seqs[3])

    async with live.running(s.Orders, policy=SOON):
        await eventually(lambda: live.value("select count(*) = 2 from orders"))

    assert await history(live) == '["n3", "n4"]'
    assert await live.head(s.Orders, "order/o1") == (4, "clear", 0)
    assert await begun(live) == [("order/o1", 1, 2)]
    assert await live.unaccounted(s.Orders) == []


async def test_baseline_any_reports_a_later_lower_version_as_late(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream, baseline="any")
    await live.migrate(s.Orders)
    await publish(live, 3)
    async with live.running(s.Orders, policy=SOON):
        await eventually(lambda: live.value("select count(*) = 1 from orders"))
    await publish(live, 2)

    await live.settle(s.Orders, policy=SOON)

    assert await history(live) == '["n3"]'
    assert await inspection.rows(live, "incidents", "kind", "version") == [("late", 2)]
    assert (await live.states(s.Orders))["o1.2"] == "skipped"


async def test_with_any_what_another_process_holds_is_fetched_and_not_stepped_over(
    live: ConsumerHarness,
) -> None:
    """The hole that a baseline of the first version seen would have: after a crash, version 3 comes first."""
    s = shop(live.stream, baseline="any")
    await live.migrate(s.Orders)
    await live.settle(s.Orders, policy=SOON)
    await publish(live, 1, 2)
    held = await another_takes(live, 2)
    await publish(live, 3, 4)
    async with live.running(s.Orders, policy=SOON):
        await eventually(lambda: stands(live, s, (4, "clear", 0)))
        for message in held:
            await message.nak()
        await live.settled(s.Orders)

    assert await history(live) == '["n1", "n2", "n3", "n4"]'
    assert await begun(live) == []


async def test_with_any_a_beginning_that_is_still_on_its_way_is_a_gap(live: ConsumerHarness) -> None:
    s = shop(live.stream, baseline="any")
    await live.migrate(s.Orders)
    await live.settle(s.Orders, policy=SOON)
    seqs = await publish(live, 1, 2)
    await live.nats.jetstream().purge_stream(live.stream.name, seq=seqs[2])
    [held] = await another_takes(live, 1)
    await publish(live, 3)
    async with live.running(s.Orders, policy=SOON):
        await inspection.reaches(1, inspection.count_decisions, live)
        await eventually(lambda: stands(live, s, (1, "gap", 1)))
        await held.nak()
        await live.settled(s.Orders)

    assert await history(live) == '["n2", "n3"]'
    assert await begun(live) == [("order/o1", 1, 1)]


async def stands(live: ConsumerHarness, s: SimpleNamespace, where: tuple[int, str, int]) -> bool:
    return await live.head(s.Orders, "order/o1") == where


async def test_with_any_the_lowest_version_counts_not_the_first_in_the_stream(live: ConsumerHarness) -> None:
    s = shop(live.stream, baseline="any")
    await live.migrate(s.Orders)
    await publish(live, 4, 3, 5)

    async with live.running(s.Orders, policy=SOON):
        await eventually(lambda: live.value("select count(*) = 1 from orders"))

    assert await history(live) == '["n3", "n4", "n5"]'
    assert await begun(live) == [("order/o1", 1, 2)]


async def test_with_any_a_broker_that_cannot_be_asked_decides_nothing(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    s = shop(live.stream, baseline="any")
    await live.migrate(s.Orders)
    ask, asked = api.message, 0

    async def down(*_: Any) -> StoredMessage | None:
        nonlocal asked
        asked += 1
        raise BrokerError("no leader")

    async def asked_again() -> bool:
        return asked > 2

    monkeypatch.setattr(api, "message", down)
    await publish(live, 3)
    with caplog.at_level(logging.INFO, "projectionist.runner"):
        async with live.running(s.Orders, policy=SOON):
            await eventually(asked_again)
            assert await live.head(s.Orders, "order/o1") == (0, "gap", 1)
            monkeypatch.setattr(api, "message", ask)
            await eventually(lambda: stands(live, s, (3, "clear", 0)))

    told = [record.message for record in caplog.records if "for what waits" in record.message]
    assert told == [f"stream {live.stream.name} cannot be asked for what waits: no leader"], (
        "once, not each time"
    )
    assert asked < 10, "put off for a second each time"


async def test_a_broker_that_answers_late_about_beginnings_keeps_no_connection(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream, baseline="any")
    await live.migrate(s.Orders)
    asked, answers, ask = asyncio.Event(), asyncio.Event(), api.message

    async def late(*given: Any, **named: Any) -> StoredMessage | None:
        asked.set()
        await answers.wait()
        return await ask(*given, **named)

    async def all_are_free() -> bool:
        return live.access._patient.value == before

    before = live.access._patient.value
    monkeypatch.setattr(api, "message", late)
    await publish(live, 3)
    async with live.running(s.Orders, policy=SOON):
        await asyncio.wait_for(asked.wait(), HANG_S)
        await eventually(all_are_free)
        answers.set()
        await eventually(lambda: stands(live, s, (3, "clear", 0)))


async def test_a_fault_in_looking_for_beginnings_leaves_the_search_for_gaps_at_work(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream, baseline="any")
    await live.migrate(s.Orders)

    async def mistaken(*_: Any) -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr(InboxStore, "beginnings", mistaken)
    await publish(live, 1, 3)
    async with live.running(s.Orders, policy=SOON):
        await eventually(lambda: stands(live, s, (1, "waiting", 1)))


async def test_with_any_two_processes_record_one_beginning_each(live: ConsumerHarness) -> None:
    s = shop(live.stream, baseline="any")
    await live.migrate(s.Orders)
    for order in range(30):
        await publish(live, 3, 4, aggregate=f"o{order}")

    async with live.running(s.Orders, processes=2, policy=SOON):
        await eventually(
            lambda: live.value("select count(*) = 30 from orders where history::text like '%n4%'")
        )

    assert await inspection.count_decisions(live) == 30
    assert await live.value("select count(distinct aggregate) from {s}.decisions") == 30


async def test_baseline_any_without_the_aggregate_in_subjects_starts_at_the_first_version(
    live: ConsumerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    class Notes(
        Projection,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "*"),
        table="notes",
        key="order_id",
        baseline="any",
    ):
        """How many notes an order has."""

        order_id: str
        n: int = 0

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.n += 1

    await live.migrate(Notes)
    await publish(live, 1, 4, 3)
    await live.nats.jetstream().purge_stream(live.stream.name, seq=2)

    with caplog.at_level(logging.WARNING, "projectionist.runner"):
        async with live.running(Notes, policy=SOON):
            await eventually(lambda: live.value("select n = 2 from notes"))

    assert await begun(live) == [("order/o1", 1, 2)]
    assert [r.message for r in caplog.records if "do not name the {aggregate}" in r.message]
    assert definition(Notes).subjects.names_aggregate is False


async def test_a_stream_that_lost_its_beginning_is_told_once_at_start_while_it_matters(
    live: ConsumerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seqs = await publish(live, 1, 2)
    await live.nats.jetstream().purge_stream(live.stream.name, seq=seqs[2])

    async def told() -> int:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "projectionist.runner"):
            await live.settle(s.Orders, policy=UNHURRIED)
        return sum(f"begins at sequence {seqs[2]}:" in record.message for record in caplog.records)

    assert await told() == 1
    assert await told() == 1, "an aggregate waits for its first version still"
    assert await live.head(s.Orders, "order/o1") == (0, "gap", 1)

    await publish(live, 1, aggregate="o2")
    async with live.verbs(s.Orders) as verbs:
        await verbs.accept_gap("order/o1", 1, 1, Act("ann", "gone for good"))
    await live.settle(s.Orders, policy=SOON)
    assert await told() == 0


async def test_a_whole_stream_says_nothing_at_start(
    live: ConsumerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 1), "o1", 1)

    with caplog.at_level(logging.WARNING, "projectionist.runner"):
        await live.settle(s.Orders)

    assert caplog.records == []
