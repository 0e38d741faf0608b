"""Entries of quarantine whose bytes are in the stream: truncated, purged, of an earlier stream, or stored again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.quarantine import ME, accounted_once, entries, released, tried, without_version
from tests.support.shop import OrderPaid, OrderPlaced, shop
from tests.support.waiting import listening

from projectionist.core.settings.settings import Policy
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import BrokerError, StoredMessage

pytestmark = pytest.mark.asyncio
LARGE = Policy(max_event_bytes=2_000)


async def too_large(live: ConsumerHarness) -> int:
    """An event in structured mode above the size limit: only its beginning is kept."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": "a",
        "source": "shop",
        "type": "order.noted",
        "aggregateid": "o1",
    }
    event |= {"aggregatetype": "order", "aggregateversion": "1", "data": {"text": "x" * 3_000}}
    return await live.publish_raw(
        msgspec.json.encode(event), {"content-type": "application/cloudevents+json"}, "o1"
    )


async def test_an_entry_of_which_only_the_beginning_was_kept_is_read_from_the_stream(
    live: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await too_large(live)
    await live.settle(s.Orders, policy=LARGE)
    assert await live.value("select octet_length(data) < size from {s}.quarantine")
    ask = api.message

    async def down(*_: Any) -> StoredMessage | None:
        raise BrokerError("no leader")

    monkeypatch.setattr(api, "message", down)
    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.retry((1, seq), ME)
        with listening() as heard:
            await heard.wait("quarantine.read", 1)
        assert await entries(live) == [(seq, "quarantined", "body", 0)]
        monkeypatch.setattr(api, "message", ask)
        await released(live)

    assert await live.value("select length(history->>0) from orders") == 3_000


async def test_a_truncated_entry_whose_message_is_purged_stays_until_data_is_supplied(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await too_large(live)
    await live.settle(s.Orders, policy=LARGE)
    await live.nats.jetstream().delete_msg(live.stream.name, seq)

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.retry((1, seq), ME)
        await tried(live)
        assert await entries(live) == [(seq, "quarantined", "body", 1)]
        assert "not all were kept" in await inspection.value(live, "quarantine", "detail")
        head = {"content-type": None, "ce-type": "order.noted", "ce-id": "a", "ce-aggregatetype": "order"}
        head |= {"ce-aggregateid": "o1", "ce-aggregateversion": "1"}
        await verbs.edit((1, seq), ME, headers=head, data=b'{"text":"short"}')
        await released(live)

    assert await live.value("select history::text from orders") == '["short"]'


async def test_an_entry_of_an_earlier_stream_of_this_name_keeps_its_place_there(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    seq = await without_version(live, OrderPlaced("ann", 5), **{"ce-id": "a"})
    await live.publish(OrderPlaced("bob", 5), "o2", 1, id="b")
    await live.settle(s.Orders)
    await live.fetch("update {s}.consumers set incarnation = 2, epoch = epoch + 1")

    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await verbs.edit((1, seq), ME, headers={"ce-aggregateversion": "1"})
        await released(live)

    assert await inspection.rows(live, "inbox", "id", "incarnation", "seq", id="a") == [("a", 1, seq)]


async def test_the_stream_may_come_again_whole_without_changing_anything(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.publish(OrderPlaced("ann", 5), "o1", 1)
    edited = await without_version(live, OrderPaid(5))
    dropped = await without_version(live, OrderPaid(5))
    async with live.running(s.Orders), live.quarantine(s.Orders) as verbs:
        await live.settled(s.Orders)
        await verbs.edit((1, edited), ME, headers={"ce-aggregateversion": "2"})
        await verbs.discard((1, dropped), ME)
        await released(live)
    before = await entries(live), await live.rows("orders"), await live.states(s.Orders)
    durable = await inspection.durable_name(live, "Orders")
    await live.nats.jetstream().delete_consumer(live.stream.name, durable)

    await live.settle(s.Orders)

    assert (await entries(live), await live.rows("orders"), await live.states(s.Orders)) == before
    await accounted_once(live, s.Orders)
