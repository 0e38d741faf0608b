"""A producer that takes another one's identity, or speaks of its aggregates: on which subjects a source may speak."""

from __future__ import annotations

import msgspec
import pytest
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness, headers_of
from tests.support.quarantine import ME, released
from tests.support.rebuilding import RebuildHarness
from tests.support.servers import Stream
from tests.support.shop import OrderNoted, OrderPlaced, OrderRow

from projectionist.projections import Projection, on

pytestmark = pytest.mark.asyncio


def orders(stream: Stream, sequence: str = "contiguous") -> type[Projection]:
    """Orders, whose events come on several subjects; the type of the aggregate stands in a header."""

    class Orders(
        OrderRow,
        table="orders",
        key="order_id",
        stream=stream.name,
        subjects=stream.subject("*", "{aggregate}"),
        sequence=sequence,
    ):
        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.history.append(event.text)

    return Orders


def trust(harness: ConsumerHarness, *places: str, source: str = "shop") -> None:
    """Let `source` speak on these subjects of the stream alone, and nobody else on any."""
    rule = {source: tuple(harness.stream.subject(place, "*") for place in places)}
    harness.policy = msgspec.structs.replace(harness.policy, sources=rule)
    harness.settings = msgspec.structs.replace(harness.settings, consumer_defaults=harness.policy)


async def attack(harness: ConsumerHarness, aggregate: str, version: int, name: str) -> int:
    """An event under the identity `name` of the shop, by somebody who may publish to `guest` subjects alone."""
    return await harness.publish(OrderPlaced("mallory", 1), aggregate, version, id=name, place="guest")


async def history(harness: ConsumerHarness) -> list[tuple[str, str]]:
    return [(row[0], row[3]) for row in await harness.rows("orders")]


async def test_without_a_rule_an_identity_can_be_taken_from_another_subject(live: ConsumerHarness) -> None:
    """What the page says happens then."""
    cls = orders(live.stream)
    await live.migrate(cls)
    await attack(live, "evil", 1, "o777-placed")
    await live.publish(OrderPlaced("ann", 1), "o777", 1, id="o777-placed")
    async with live.running(cls):
        await inspection.reaches(1, inspection.count_incidents, live)

    assert await history(live) == [("evil", '["placed"]')]
    assert [kind for kind, _ in await inspection.incidents(live)] == ["identity_reuse"]


async def test_an_identity_is_not_taken_by_a_source_that_may_not_speak_there(live: ConsumerHarness) -> None:
    cls = orders(live.stream)
    await live.migrate(cls)
    trust(live, "order")
    forged = await attack(live, "evil", 1, "o777-placed")
    await live.publish(OrderPlaced("ann", 1), "o777", 1, id="o777-placed")
    await live.settle(cls)

    assert await history(live) == [("o777", '["placed"]')]
    assert await inspection.incidents(live) == []
    assert await inspection.rows(live, "quarantine", "seq", "reason") == [(forged, "source")]


@pytest.mark.parametrize("by", ["message id", "body"])
async def test_an_identity_of_the_stream_is_not_taken_where_the_stream_may_not_speak(
    live: ConsumerHarness, by: str
) -> None:
    """What names no id of its own is named by `Nats-Msg-Id` or by fields of the body, and the stream is its source."""
    cls = orders(live.stream)
    await live.migrate(cls)
    trust(live, "order", source=live.stream.name)
    rule = {**live.policy.sources, "guest": (live.stream.subject("guest", "*"),)}
    fields = ("customer",) if by == "body" else ()
    live.policy = msgspec.structs.replace(live.policy, sources=rule, identity_fields=fields)
    live.settings = msgspec.structs.replace(live.settings, consumer_defaults=live.policy)
    placed = OrderPlaced("ann", 1)
    for aggregate, source, place in (("evil", "guest", "guest"), ("o777", live.stream.name, "order")):
        made = headers_of(placed, aggregate, 1, id="", source=source) | {"Nats-Msg-Id": "o777-placed"}
        del made["ce-id"]
        if place == "guest":  # under the same id, outside the window in which the broker takes no other
            made["nats-msg-id"] = made.pop("Nats-Msg-Id")
        await live.publish_raw(msgspec.json.encode(placed), made, aggregate, kind=place)
    await live.settle(cls)

    assert await history(live) == [("o777", '["placed"]')]
    assert await inspection.rows(live, "quarantine", "seq", "reason") == [(1, "source")]
    assert "of its identity" in await inspection.value(live, "quarantine", "detail")


async def test_a_source_that_no_rule_names_speaks_nowhere(live: ConsumerHarness) -> None:
    cls = orders(live.stream)
    await live.migrate(cls)
    trust(live, "order")
    await live.publish(OrderPlaced("ann", 1), "o1", 1, source="stranger")
    await live.settle(cls)

    assert await live.rows("orders") == []
    assert "'stranger' is none of those" in await inspection.value(live, "quarantine", "detail")


async def test_a_gap_is_not_filled_by_a_source_that_may_not_speak_there(live: ConsumerHarness) -> None:
    """The forged version lies in the stream, where missing versions are looked for, and in quarantine."""
    cls = orders(live.stream)
    await live.migrate(cls)
    trust(live, "order")
    await attack(live, "o1", 1, "e1")
    await live.publish(OrderNoted("two"), "o1", 2, id="e2")
    async with live.running(cls):
        await inspection.reaches("waiting", inspection.head_state, live, "order/o1")
        await live.publish(OrderPlaced("ann", 1), "o1", 1, id="e1")
        await live.settled(cls)

    assert await history(live) == [("o1", '["placed", "two"]')]


@pytest.mark.parametrize("sequence", ["contiguous", "unordered"])
async def test_a_rebuild_and_verify_leave_out_what_live_has_refused(
    rebuilds: RebuildHarness, sequence: str
) -> None:
    harness = rebuilds.harness
    cls = orders(harness.stream, sequence)
    await harness.migrate(cls)
    trust(harness, "order")
    await attack(harness, "o1", 1, "e1")
    await attack(harness, "evil", 1, "e9")
    await harness.publish(OrderPlaced("ann", 100), "o1", 1, id="e1")
    await harness.settle(cls)
    before = await harness.rows("orders")
    assert [row[2] for row in before] == [100]

    assert (await rebuilds.verify(cls)).drifted == 0
    await rebuilds.rebuild(cls)
    assert await harness.rows("orders") == before


async def test_a_wider_rule_and_a_retry_bring_out_what_was_refused(live: ConsumerHarness) -> None:
    cls = orders(live.stream)
    await live.migrate(cls)
    trust(live, "order")
    seq = await live.publish(OrderPlaced("ann", 1), "o1", 1, place="till")
    await live.settle(cls)
    assert await live.rows("orders") == []

    trust(live, "order", "till")
    async with live.running(cls):
        async with live.quarantine(cls) as verbs:
            await verbs.retry((1, seq), ME)
        await released(live)
        await live.settled(cls)
    assert await history(live) == [("o1", '["placed"]')]


async def test_what_was_applied_before_the_rule_makes_a_rebuild_refuse_to_leave_it_out(
    rebuilds: RebuildHarness,
) -> None:
    harness = rebuilds.harness
    cls = orders(harness.stream)
    await harness.migrate(cls)
    await harness.publish(OrderPlaced("ann", 100), "o1", 1, place="till")
    await harness.publish(OrderNoted("two"), "o1", 2)
    await harness.settle(cls)
    before = await harness.rows("orders")

    trust(harness, "order")
    with pytest.raises(Exception, match="o1"):
        await rebuilds.rebuild(cls)
    assert await harness.rows("orders") == before
