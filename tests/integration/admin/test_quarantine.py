"""What could not be read: read again, corrected, or dropped, and in the end accounted for once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.quarantine import ME, accounted_once, entries, released, tried, without_version
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.core.settings.settings import Headers, Policy
from projectionist.projections import Projection, on

pytestmark = pytest.mark.asyncio


async def test_supplied_headers_settle_an_event_that_lacked_them_like_any_other(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1, id="a")
    seq = await without_version(live, OrderPaid(5), **{"ce-id": "b"})
    await live.publish(OrderNoted("n3"), "o1", 3, id="c")
    await live.settle(s.Orders)
    assert await entries(live) == [(seq, "quarantined", "version", 0)]

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "2"})
        await released(live)

    assert await live.rows("orders") == [("o1", "paid", 5, '["placed", "paid", "n3"]')]
    assert await live.states(s.Orders) == {"a": "applied", "b": "applied", "c": "applied"}
    assert await inspection.value(live, "inbox", "seq", id="b") == seq
    assert await inspection.count_intents(live) == 1
    await accounted_once(live, s.Orders)

    [decision] = await inspection.rows(
        live,
        "decisions",
        "kind",
        "incarnation",
        "seq",
        "aggregate",
        "version",
        "headers",
        "data",
        "actor",
        "reason",
    )
    assert decision[:5] == ("edit", 1, seq, None, None)
    assert b"ce-aggregateversion: 2\r\n" in decision[5]
    assert decision[6:] == (None, "ann", "the producer forgot it")
    [(action, detail)] = await live.fetch("select action, detail::text from {s}.audit where who = 'ann'")
    assert action == "edit"
    first = await live.value("select encode(hash, 'hex') from {s}.quarantine")
    assert msgspec.json.decode(detail) == {
        "first": first,
        "edited": first,
        "headers": ["ce-aggregateversion"],
    }


async def test_corrected_data_is_read_instead_and_both_hashes_are_on_record(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": "a",
        "source": "shop",
        "type": "order.placed",
        "aggregateid": "o1",
    }
    event |= {"aggregatetype": "order", "aggregateversion": "1", "data": {"customer": "ann", "cents": 5}}
    whole = msgspec.json.encode(event)
    seq = await live.publish_raw(whole[:-2], {"content-type": "application/cloudevents+json"}, "o1")
    await live.settle(s.Orders)

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, data=whole)
        await released(live)

    assert await live.rows("orders") == [("o1", "placed", 5, '["placed"]')]
    detail = msgspec.json.decode(await live.value("select detail::text from {s}.audit where who = 'ann'"))
    assert detail["first"] == await live.value("select encode(hash, 'hex') from {s}.quarantine")
    assert detail["edited"] == await live.value("select encode(hash, 'hex') from {s}.decisions")
    assert detail["first"] != detail["edited"]
    assert await inspection.value(live, "quarantine", "data") == whole[:-2], "what came stays as evidence"
    await accounted_once(live, s.Orders)


async def test_the_last_edit_counts_and_may_take_a_header_away(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderPlaced("ann", 5), **{"ce-time": "yesterday"})
    await live.settle(s.Orders)

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "1"})
        await tried(live)
        assert await entries(live) == [(seq, "quarantined", "time", 1)]
        await verbs.edit((1, seq), ME, headers={"CE-Time": None, "ce-aggregateid": "o1"})
        await released(live)

    assert await live.head(s.Orders, "order/o1") == (1, "clear", 0)


async def test_a_retry_reads_by_the_settings_of_now(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderPlaced("ann", 5), **{"x-version": "1"})
    await live.settle(s.Orders)

    policy = Policy(headers=Headers(version="x-version"))
    async with live.running(s.Orders, policy=policy), live.quarantine(s.Orders) as verbs:
        await verbs.retry((1, seq), ME)
        await released(live)

    assert await live.head(s.Orders, "order/o1") == (1, "clear", 0)
    assert await inspection.count_decisions(live) == 0
    await accounted_once(live, s.Orders)


async def test_what_still_cannot_be_read_stays_and_its_attempts_are_counted(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderPlaced("ann", 5))
    await live.settle(s.Orders)

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        for attempt in (1, 2):
            await verbs.retry((1, seq), ME)
            await tried(live, attempt)

    assert await entries(live) == [(seq, "quarantined", "version", 2)]
    assert await live.value("select due is null from {s}.quarantine")
    await accounted_once(live, s.Orders)


async def test_new_code_reads_by_itself_what_older_code_could_not(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderPlaced("ann", 5), **{"x-version": "1"})
    await live.settle(s.Orders)

    class Orders(
        Projection,
        stream=live.stream.name,
        subjects=live.stream.subject("order", "{aggregate}"),
        table="orders",
        key="order_id",
        effects="beginning",
    ):
        """The same table under newer code."""

        order_id: str
        status: str = "new"
        cents: int = 0
        history: list[str] = []

        @on(OrderPlaced)
        def placed(self, event: OrderPlaced) -> None:
            self.status = "placed by newer code"

        @on(OrderPaid)
        def paid(self, event: OrderPaid) -> None:
            self.status = "paid"

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.history.append(event.text)

    async with live.running(Orders, policy=Policy(headers=Headers(version="x-version"))):
        await released(live)
    assert await live.rows("orders") == [("o1", "placed by newer code", 0, "[]")]

    other = await without_version(live, OrderPlaced("bob", 5), "o2")
    await live.settle(Orders)
    async with live.running(Orders):
        with listening() as heard:
            await heard.wait("heart.beat", 4)
    assert await entries(live) == [(seq, "released", "version", 0), (other, "quarantined", "version", 0)]


async def test_without_order_quarantine_is_read_again_too(live: ConsumerHarness) -> None:
    s = shop(live.stream, sequence="unordered")
    await live.migrate(s.Orders)
    seq = await live.publish(OrderPlaced("ann", 5), "o1", 1, headers={"ce-schemaversion": "one"})
    await live.settle(s.Orders)
    assert await entries(live) == [(seq, "quarantined", "schema", 0)]

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, headers={"ce-schemaversion": "1"})
        await released(live)

    assert await live.rows("orders") == [("o1", "placed", 5, '["placed"]')]
    await accounted_once(live, s.Orders)
