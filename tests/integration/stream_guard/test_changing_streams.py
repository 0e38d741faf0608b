"""Streams whose configuration others change while they are read: subjects, sources, transforms, mirrors, filters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from nats.js.api import RePublish, StreamConfig, StreamSource, SubjectTransform
from nats.js.errors import NotFoundError
from tests.support import inspection
from tests.support.consumer_harness import ConsumerHarness
from tests.support.load import Load, tuned
from tests.support.peers import peer_takes
from tests.support.servers import SCHEMA, Stream
from tests.support.shop import OrderNoted, OrderPaid, OrderPlaced, shop
from tests.support.waiting import eventually, listening

from projectionist.core.nats import connections
from projectionist.core.operator import Act
from projectionist.core.settings.settings import Policy
from projectionist.ops.inspect.stream_audit import walk
from projectionist.projections import Projection, definition, on
from projectionist.runner.database.queries import Queries
from projectionist.runner.history.progress import Logged
from projectionist.runner.jetstream.durable import StreamUnfit
from projectionist.runner.jetstream.stream_range import Range
from projectionist.runner.verify.replay import Replayer

pytestmark = pytest.mark.asyncio


class Changing:
    """The harness's stream, and streams beside it, to be made and changed."""

    def __init__(self, harness: ConsumerHarness) -> None:
        self._js = harness.nats.jetstream()
        self._name = harness.stream.name
        self._made: list[str] = []

    async def change(self, **config: Any) -> None:
        """Give the harness's stream another configuration."""
        await self._js.update_stream(StreamConfig(name=self._name, **config))

    async def make(self, suffix: str, **config: Any) -> Stream:
        """A stream beside it."""
        made = Stream(f"{self._name}_{suffix}")
        await self._js.add_stream(StreamConfig(name=made.name, **config))
        self._made.append(made.name)
        return made

    async def close(self) -> None:
        for name in self._made:
            await self._js.delete_stream(name)


@pytest_asyncio.fixture
async def changing(live: ConsumerHarness) -> AsyncIterator[Changing]:
    made = Changing(live)
    yield made
    await made.close()


async def durable(harness: ConsumerHarness) -> Any:
    """The one durable, as the broker shows it."""
    name = await inspection.durable_name(harness)
    return await harness.nats.jetstream().consumer_info(harness.stream.name, name)


async def nothing_is_in_quarantine(harness: ConsumerHarness) -> bool:
    return not await inspection.count_quarantined(harness)


async def finding(harness: ConsumerHarness, aggregate: str) -> str:
    """Wait for a finding about the aggregate; what it says."""

    async def found() -> str:
        rows = await inspection.rows(harness, "incidents", "detail", aggregate=aggregate)
        return str(rows[0][0]) if rows else ""

    return await eventually(found)


async def place(harness: ConsumerHarness, *orders: str) -> None:
    for order in orders:
        await harness.publish(OrderPlaced("ann", 5), order, 1)


async def orders(harness: ConsumerHarness, table: str = "orders") -> list[str]:
    return [row[0] for row in await harness.rows(table)]


async def test_a_subject_added_to_a_stream_while_it_is_read_changes_nothing_for_consumers(
    live: ConsumerHarness, changing: Changing
) -> None:
    s = shop(live.stream)
    ours, others = live.stream.subject("order", "*"), live.stream.subject("customer", "*")
    await changing.change(subjects=[ours])
    await live.migrate(s.Orders)
    async with live.running(s.Orders):
        await place(live, "a", "b")
        await live.settled(s.Orders)
        await changing.change(subjects=[ours, others])
        for number in range(20):
            await live.publish(OrderNoted("hello"), f"c{number}", 1, kind="customer")
        await place(live, "c", "d")
        await live.settled(s.Orders)
    await place(live, "e")
    await live.settle(s.Orders)

    assert await orders(live) == ["a", "b", "c", "d", "e"]
    assert await nothing_is_in_quarantine(live)
    assert (await durable(live)).config.filter_subject == ours


async def test_a_too_wide_durable_is_narrowed_in_place_and_foreign_events_are_counted(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await live.settle(s.Orders)
    made = await durable(live)
    with listening() as heard:
        async with live.running(s.Orders):
            await heard.wait("worker.running")
            await refilter(live, None)
            for number in range(3):
                await live.publish(OrderNoted("hello"), f"c{number}", 1, kind="customer")
            await place(live, "a")
            await heard.wait("durable.filtered")
            await live.publish(OrderNoted("hello"), "c4", 1, kind="customer")
            await live.settled(s.Orders)

    now = await durable(live)
    assert (now.created, now.config.filter_subject) == (made.created, live.stream.subject("order", "*"))
    assert await orders(live) == ["a"]
    assert await nothing_is_in_quarantine(live)


async def test_what_a_durable_passed_over_while_somebody_had_narrowed_it_is_read(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    with listening() as heard:
        async with live.running(s.Orders):
            await place(live, "o1")
            await live.settled(s.Orders)
            await heard.wait("stream_guard.recorded", heard.counts["stream_guard.recorded"] + 2)
            await refilter(live, live.stream.subject("order", "o2"))
            await live.publish(OrderPaid(), "o1", 2)
            await place(live, "o2")
            await live.settled(s.Orders)

    assert [row[1] for row in await live.rows("orders")] == ["paid", "placed"]
    assert (await durable(live)).config.filter_subject == live.stream.subject("order", "*")


async def test_what_was_passed_over_while_nobody_read_is_read_by_the_next_start(
    live: ConsumerHarness,
) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    await place(live, "o1")
    await live.settle(s.Orders)
    await refilter(live, live.stream.subject("order", "o2"))
    await live.publish(OrderPaid(), "o1", 2)
    await place(live, "o2")
    name = await inspection.durable_name(live)
    taken = await peer_takes(live.nats.jetstream(), live.stream.name, name, 1)
    await taken[0].ack_sync()

    await live.settle(s.Orders)

    assert [row[1] for row in await live.rows("orders")] == ["paid", "placed"]


async def test_two_processes_whose_durable_is_narrowed_under_load_lose_nothing(live: ConsumerHarness) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    load = Load(live, s)
    with listening() as heard:
        async with live.running(s.Orders, processes=2):
            await load.more(30)
            for _ in range(2):
                seen = heard.counts["source.open"]
                await eventually(lambda: narrowed(live))
                await load.more(30)
                await heard.wait("source.open", seen + 1)
            await live.settled(s.Orders)

    assert len(await orders(live)) == 90
    assert (await durable(live)).config.filter_subject == live.stream.subject("order", "*")


async def narrowed(harness: ConsumerHarness) -> bool:
    """Whether the durable was there to be narrowed."""
    with suppress(NotFoundError):
        await refilter(harness, harness.stream.subject("order", "nobody"))
        return True
    return False


async def refilter(harness: ConsumerHarness, filter_subject: str | None) -> None:
    """Change the filter of the durable, as a tool of somebody else would."""
    config = (await durable(harness)).config
    config.filter_subject = filter_subject
    await harness.nats.jetstream().add_consumer(harness.stream.name, config)


def two_kinds(stream: Stream) -> type:
    """A consumer of two of the kinds of subjects of a stream."""

    class Kinds(
        Projection,
        stream=stream.name,
        subjects=(
            stream.subject("order", "{aggregate}"),
            stream.subject("refund", "{aggregate}"),
        ),
        table="kinds",
        key="order_id",
        sequence="monotonic",
    ):
        """Reads two of three kinds of subjects."""

        order_id: str
        notes: int = 0

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.notes += 1

    return Kinds


async def test_events_that_only_the_common_filter_lets_through_are_acked_and_counted(
    live: ConsumerHarness,
) -> None:
    consumer = two_kinds(live.stream)
    await live.migrate(consumer)
    async with live.running(consumer):
        for number in range(7):
            await live.publish(OrderNoted("x"), f"p{number}", 1, place="payment")
        await live.publish_raw(b"torn", None, "p8", kind="payment")
        await live.publish(OrderNoted("x"), "o1", 1)
        await live.publish(OrderNoted("x"), "o2", 1, place="refund")
        await live.settled(consumer)

    assert await live.rows("kinds") == [("o1", 1), ("o2", 1)]
    assert await nothing_is_in_quarantine(live)
    assert await inspection.count_outcomes(live, "foreign") == 8


async def test_what_is_not_the_consumers_is_on_record_and_no_stream_is_read_twice_for_it(
    live: ConsumerHarness,
) -> None:
    consumer = two_kinds(live.stream)
    await live.migrate(consumer)
    tuned(live, run={"heartbeat_s": 0.3})
    with listening() as heard:
        async with live.running(consumer), live.running(consumer):
            for number in range(30):
                await live.publish(OrderNoted("x"), f"p{number}", 1, place="payment")
                await live.publish(OrderNoted("x"), f"o{number}", 1)
                await live.publish(OrderNoted("x"), f"p{number}", 2, place="payment")
            await inspection.reaches(90, inspection.ack_floor, live)

    assert heard.counts["account.listed"] == 0
    assert await inspection.count_outcomes(live, "foreign") == 60
    assert await inspection.count_marks(live, "settled_batches") == 0


async def test_whoever_reads_the_stream_again_leaves_alone_what_is_not_the_consumers(
    live: ConsumerHarness,
) -> None:
    consumer = two_kinds(live.stream)
    await live.migrate(consumer)
    await live.publish(OrderNoted("x"), "o1", 1)
    await live.publish_raw(b"torn", None, "p1", kind="payment")
    await live.publish(OrderNoted("x"), "o2", 1, place="refund")
    await live.settle(consumer)

    settings = msgspec.structs.replace(live.settings, consumer_defaults=Policy(replay="allow"))
    one = definition(consumer)
    client = await connections.connect(live.settings.nats, name="reader")
    try:
        walked = await walk(client, one, settings, Logged("walk"))
        async with live.pool.acquire() as connection:
            replayer = Replayer(Queries(connection, SCHEMA), one, settings, client, Logged("replay"))
            replayed = await replayer.run(Range(1, 3), Act("ann", "to see"))
    finally:
        await client.close()

    assert (walked.events, walked.unreadable) == (2, 0)
    assert (replayed.events, replayed.settled, replayed.unreadable) == (2, 2, 0)
    assert await nothing_is_in_quarantine(live)


async def test_a_stream_that_gets_sources_while_it_is_read_goes_on_without_their_events(
    live: ConsumerHarness, changing: Changing
) -> None:
    s = shop(live.stream)
    ours = live.stream.subject("order", "*")
    await changing.change(subjects=[ours])
    legacy = await changing.make("LEGACY", subjects=[live.stream.subject("legacy", "*")])
    await live.migrate(s.Orders)
    async with live.running(s.Orders):
        await place(live, "a")
        await live.settled(s.Orders)
        for number in range(20):
            await live.publish(OrderNoted("old"), f"l{number}", 1, place="legacy")
        await changing.change(subjects=[ours], sources=[StreamSource(name=legacy.name)])
        await eventually(lambda: holds(live, live.stream.name, 21))
        await place(live, "b")
        await live.settled(s.Orders)
    await place(live, "c")
    await live.settle(s.Orders)

    assert await orders(live) == ["a", "b", "c"]
    assert await nothing_is_in_quarantine(live)


async def holds(harness: ConsumerHarness, stream: str, messages: int) -> bool:
    return bool((await harness.nats.jetstream().stream_info(stream)).state.messages == messages)


def gathered(stream: Stream, subject: str) -> type:
    """A consumer of orders on another stream, by another subject."""

    class Gathered(
        Projection, stream=stream.name, subjects=f"{subject}.{{aggregate}}", table="gathered", key="order_id"
    ):
        """Orders from elsewhere."""

        order_id: str
        notes: int = 0

        @on(OrderNoted)
        def noted(self, event: OrderNoted) -> None:
            self.notes += 1

    return Gathered


@pytest.mark.parametrize("way", ["sourced", "sourced by a transform", "mirrored", "mirrored by a transform"])
async def test_events_that_come_from_another_stream_are_read_and_their_gaps_told_rightly(
    live: ConsumerHarness, changing: Changing, way: str
) -> None:
    ours, theirs = live.stream.subject("order", "*"), "moved.order"
    plain = StreamSource(name=live.stream.name)
    renamed = StreamSource(
        name=live.stream.name,
        subject_transforms=[SubjectTransform(src=ours, dest=f"{theirs}.{{{{wildcard(1)}}}}")],
    )
    config: dict[str, Any] = {"sources" if "sourced" in way else "mirror": renamed if "by" in way else plain}
    if "sourced" in way:
        config = {"subjects": [f"{live.stream.name}_OWN"], "sources": [config["sources"]]}
    copy = await changing.make("COPY", **config)
    consumer = gathered(copy, theirs if "by" in way else live.stream.subject("order"))
    live.tampered = True  # it looks at the other stream
    await live.migrate(consumer)
    for version in (1, 2, 4):
        await live.publish(OrderNoted("x"), "o1", version)
    async with live.running(consumer):
        said = await finding(live, "order/o1")
        await live.publish(OrderNoted("x"), "o1", 3)
        await live.value_of("select notes from gathered", 4)

    assert "not in stream" in said
    assert await nothing_is_in_quarantine(live)


async def test_what_a_peer_holds_of_a_sourced_aggregate_is_fetched(
    live: ConsumerHarness, changing: Changing
) -> None:
    origin = StreamSource(name=live.stream.name)
    copy = await changing.make("COPY", subjects=[f"{live.stream.name}_OWN"], sources=[origin])
    consumer = gathered(copy, live.stream.subject("order"))
    live.tampered = True
    await live.migrate(consumer)
    with listening() as heard:
        async with live.running(consumer):
            await heard.wait("worker.running")
    for version in range(1, 6):
        await live.publish(OrderNoted("x"), "o1", version)
    await eventually(lambda: holds(live, copy.name, 5))
    name = await inspection.durable_name(live)
    taken = await peer_takes(live.nats.jetstream(), copy.name, name, 5)
    for message in taken[:1] + taken[3:]:
        await message.nak()

    async with live.running(consumer):
        await live.value_of("select notes from gathered", 5)


async def test_a_subject_taken_off_a_stream_leaves_what_it_holds_to_be_read(
    live: ConsumerHarness, changing: Changing
) -> None:
    s = shop(live.stream)
    ours, others = live.stream.subject("order", "*"), live.stream.subject("customer", "*")
    await live.migrate(s.Orders, s.Spend)
    async with live.running(s.Orders):
        await place(live, "a")
        await live.publish(OrderNoted("three"), "a", 3)
        await changing.change(subjects=[others])
        await live.publish(OrderNoted("hello"), "c", 1, kind="customer")
        said = await finding(live, "order/a")
        await changing.change(subjects=[ours, others])
        await live.publish(OrderNoted("two"), "a", 2)
        await place(live, "b")
        await live.settled(s.Orders)
        await changing.change(subjects=[others])
    await live.settle(s.Orders, s.Spend)

    assert "not in stream" in said
    assert "takes no such subject now" in said
    assert [row[3] for row in await live.rows("orders")] == ['["placed", "two", "three"]', '["placed"]']
    assert await live.rows("spend") == [("ann", 2, 10)]
    assert await nothing_is_in_quarantine(live)


async def test_subjects_the_stream_neither_takes_nor_holds_are_refused_to_a_new_consumer(
    live: ConsumerHarness, changing: Changing
) -> None:
    s = shop(live.stream)
    await changing.change(subjects=[live.stream.subject("customer", "*")])
    await live.migrate(s.Orders)
    with pytest.raises(StreamUnfit, match="no subject is both"):
        async with live.running(s.Orders):
            await live.settled(s.Orders)


async def test_a_transform_that_leads_events_away_is_told_as_filtered_until_it_ends(
    live: ConsumerHarness, changing: Changing
) -> None:
    s = shop(live.stream)
    ours = live.stream.subject("order", "*")
    away = SubjectTransform(src=ours, dest=live.stream.subject("archive", "{{wildcard(1)}}"))
    await live.migrate(s.Orders)
    async with live.running(s.Orders):
        await place(live, "o1")
        await changing.change(subjects=[live.stream.subjects], subject_transform=away)
        elsewhere = await live.publish(OrderPaid(), "o1", 2)
        await live.nats.jetstream().update_stream(name=live.stream.name, subjects=[live.stream.subjects])
        await live.publish(OrderNoted("three"), "o1", 3)
        said = await finding(live, "order/o1")
        await place(live, "o2")
        await live.settled(s.Orders)

    assert f"version 2 is at sequence {elsewhere} on {live.stream.subject('archive', 'o1')}" in said
    assert await orders(live) == ["o1", "o2"]


async def test_a_transform_that_makes_events_ours_is_read_and_its_gaps_found(
    live: ConsumerHarness, changing: Changing
) -> None:
    s = shop(live.stream)
    legacy = live.stream.subject("legacy", "*")
    to_ours = SubjectTransform(src=legacy, dest=live.stream.subject("order", "{{wildcard(1)}}"))
    await changing.change(subjects=[legacy], subject_transform=to_ours)
    await live.migrate(s.Orders)
    async with live.running(s.Orders):
        await live.publish(OrderPlaced("ann", 5), "o1", 1, place="legacy")
        await live.publish(OrderNoted("three"), "o1", 3, place="legacy")
        said = await finding(live, "order/o1")
        await live.publish(OrderNoted("two"), "o1", 2, place="legacy")
        await live.settled(s.Orders)

    assert "not in stream" in said
    assert [row[3] for row in await live.rows("orders")] == ['["placed", "two", "three"]']


async def test_a_stream_that_publishes_on_is_read_as_ever(live: ConsumerHarness, changing: Changing) -> None:
    s = shop(live.stream)
    await live.migrate(s.Orders)
    async with live.running(s.Orders):
        await place(live, "a")
        await changing.change(
            subjects=[live.stream.subjects], republish=RePublish(src=">", dest=f"on.{live.stream.name}.>")
        )
        await place(live, "b")
        await live.settled(s.Orders)
    assert await orders(live) == ["a", "b"]
