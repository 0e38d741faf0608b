"""The Publisher on a real stream: one identity a fact, whatever happens on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import SubjectTransform
from opentelemetry.sdk.trace import TracerProvider
from tests.support.servers import Servers, Stream
from tests.support.waiting import HANG_S, listening

from projectionist.core.nats import connections
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats, Policy
from projectionist.outbox.publishing.draft import PublishError
from projectionist.outbox.publishing.publisher import NotPublished, Published, Publisher, WrongSequence
from projectionist.projections import Event
from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.runner.decoding.decoder import Decoder
from projectionist.runner.decoding.delivery import Delivery
from projectionist.runner.jetstream.pull_source import JetStreamSource


class Placed(Event, type="order.placed", schema=2):
    order_id: str
    total: float = 0


@pytest_asyncio.fixture
async def client(servers: Servers) -> AsyncIterator[Client]:
    client = await connections.connect(Nats(url=(Url(servers.nats_url),)), name="test")
    yield client
    await client.close()


@asynccontextmanager
async def publishing(client: Client, stream: Stream, **changes: Any) -> AsyncIterator[Publisher]:
    kept = {"source": "/shop", "subject": stream.subject("order", "{aggregate}")}
    async with Publisher(client, **kept | changes) as publisher:
        yield publisher


async def read_all(client: Client, stream: Stream, count: int) -> list[Delivery]:
    subjects = Subjects([stream.subject("order", "{aggregate}")])
    source = JetStreamSource(
        client, stream=stream.name, durable="d", subjects=subjects, batch=100, ack_wait_s=30, contiguous=True
    )
    reader = Decoder(
        Policy(),
        stream=stream.name,
        ordered=False,
        match=subjects.match,
        known={"order.placed"},
        decode=lambda kind, schema, data: msgspec.json.decode(data, type=Placed),
    )
    await source.open()
    read: list[Delivery] = []
    async with asyncio.timeout(HANG_S):
        while len(read) < count:
            for arrival in await source.take(1000, 16 << 20, 0.01):
                found = reader.read(arrival)
                assert isinstance(found, Delivery), found
                read.append(found)
    await source.close()
    return read


@pytest.mark.asyncio
class TestOnAStream:
    async def test_an_event_arrives_as_it_was_published(self, client: Client, stream: Stream) -> None:
        moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
        tracer = TracerProvider().get_tracer("test")
        async with publishing(client, stream) as publisher:
            with tracer.start_as_current_span("produce") as span:
                done = await publisher.publish(
                    Placed(order_id="é 7", total=1.5),
                    aggregate="order/é 7.b",
                    version=3,
                    id="id %1",
                    time=moment,
                    correlation="c",
                    causation="d",
                )
        assert done == Published(stream.name, 1, duplicate=False)
        (found,) = await read_all(client, stream, 1)
        assert (found.source, found.id, found.type, found.schema) == ("/shop", "id %1", "order.placed", 2)
        assert (found.aggregate, found.version) == ("order/é 7.b", 3)
        assert (found.correlation, found.causation) == ("c", "d")
        assert found.envelope().time == moment
        assert found.event == Placed(order_id="é 7", total=1.5)
        assert found.traceparent is not None
        assert found.traceparent.split("-")[1] == f"{span.get_span_context().trace_id:032x}"

    async def test_the_same_id_is_stored_once_and_another_sources_is_another(
        self, client: Client, stream: Stream
    ) -> None:
        event = Placed(order_id="7")
        async with (
            publishing(client, stream) as ours,
            publishing(client, stream, source="/other") as theirs,
        ):
            first = await ours.publish(event, aggregate="order/7", version=1, id="e-1")
            again = await ours.publish(event, aggregate="order/7", version=1, id="e-1")
            other = await theirs.publish(event, aggregate="order/7", version=1, id="e-1")
        assert (again.sequence, again.duplicate) == (first.sequence, True)
        assert (other.sequence, other.duplicate) == (2, False)

    async def test_an_expected_sequence_guards_the_subject_and_a_retry_is_no_conflict(
        self, client: Client, stream: Stream
    ) -> None:
        async with publishing(client, stream) as publisher:
            draft = publisher.draft(
                Placed(order_id="7"),
                aggregate="order/7",
                version=1,
                id="e-1",
                expected_last_subject_sequence=0,
            )
            assert not (await publisher.send(draft)).duplicate
            assert (await publisher.send(draft)).duplicate
            with pytest.raises(WrongSequence):
                await publisher.publish(
                    Placed(order_id="7"),
                    aggregate="order/7",
                    version=1,
                    id="e-2",
                    expected_last_subject_sequence=0,
                )

    async def test_a_retry_is_no_conflict_where_the_stream_renames_subjects(
        self, client: Client, stream: Stream
    ) -> None:
        config = (await client.jetstream(timeout=HANG_S).stream_info(stream.name)).config
        moved = SubjectTransform(
            src=stream.subject("order", "*"), dest=stream.subject("kept", "{{wildcard(1)}}")
        )
        await client.jetstream(timeout=HANG_S).update_stream(config.evolve(subject_transform=moved))
        async with publishing(client, stream) as publisher:
            draft = publisher.draft(
                Placed(order_id="7"),
                aggregate="order/7",
                version=1,
                id="e-1",
                expected_last_subject_sequence=0,
            )
            first = await publisher.send(draft)
            again = await publisher.send(draft)
        assert (again.sequence, again.duplicate) == (first.sequence, True)

    async def test_a_killed_broker_is_waited_for_and_the_event_is_stored_once(
        self, servers: Servers, client: Client, stream: Stream
    ) -> None:
        async with publishing(client, stream) as publisher:
            await publisher.publish(Placed(order_id="7"), aggregate="order/7", version=1, id="e-1")
            with listening() as heard:
                servers.kill_nats()
                await heard.wait("broker.disconnected")
                waiting = asyncio.ensure_future(
                    publisher.publish(Placed(order_id="7"), aggregate="order/7", version=2, id="e-2")
                )
                servers.up()
                assert not (await waiting).duplicate
            assert (
                await publisher.publish(Placed(order_id="7"), aggregate="order/7", version=2, id="e-2")
            ).duplicate

    async def test_without_a_stream_it_is_told_in_time(self, client: Client, stream: Stream) -> None:
        """An outage is waited out for half a minute; a request that waits for a mistake hangs for as long."""
        async with (
            asyncio.timeout(20),
            publishing(client, stream, subject="nowhere.{aggregate}", stream_s=0.3) as publisher,
        ):
            with pytest.raises(
                NotPublished, match=r"no stream takes the subject nowhere\.7\. Make the stream"
            ):
                await publisher.publish(Placed(order_id="7"), aggregate="order/7", version=1, id="e-1")

    async def test_an_event_that_is_too_large_is_told_at_once(self, client: Client, stream: Stream) -> None:
        """The headers count too: a server closes the connection over a message that is too large with them."""
        async with publishing(client, stream) as publisher:
            for size in (2_000_000, client.max_payload):
                with pytest.raises(PublishError, match=f"of {size} bytes"):
                    async with asyncio.timeout(20):
                        await publisher.publish(
                            b"x" * size, type="order.placed", aggregate="order/7", version=1, id="e-1"
                        )

    async def test_many_are_published_in_their_order_and_few_at_once(
        self, client: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with publishing(client, stream) as publisher:
            drafts = [
                publisher.draft(
                    Placed(order_id=str(n)), aggregate=f"order/{n % 7}", version=n // 7 + 1, id=str(n)
                )
                for n in range(1000)
            ]
            at_once: list[int] = []
            send, busy = publisher.send, set[str]()

            async def counted(draft: Any) -> Published:
                busy.add(draft.headers["ce-id"])
                at_once.append(len(busy))
                try:
                    return await send(draft)
                finally:
                    busy.discard(draft.headers["ce-id"])

            monkeypatch.setattr(publisher, "send", counted)
            done = await publisher.publish_many(iter(drafts), in_flight=20)
            assert [one.sequence for one in done] == list(range(1, 1001))
            assert 1 < max(at_once) <= 20
            assert all(one.duplicate for one in await publisher.publish_many(drafts))

    async def test_of_many_the_first_that_cannot_be_is_told(self, client: Client, stream: Stream) -> None:
        async with publishing(client, stream) as publisher:
            good = publisher.draft(Placed(order_id="7"), aggregate="order/7", version=1, id="e-1")
            bad = publisher.draft(
                b"x" * 2_000_000, type="order.placed", aggregate="order/7", version=1, id="e-2"
            )
            with pytest.raises(PublishError, match="2000000"):
                await publisher.publish_many([good, bad])

    async def test_one_that_is_not_open_says_how(self, client: Client, stream: Stream) -> None:
        publisher = Publisher(client, source="/shop", subject="shop.{aggregate}")
        with pytest.raises(PublishError, match="async with"):
            await publisher.publish(Placed(order_id="7"), aggregate="order/7", version=1, id="e-1")


@pytest.mark.asyncio
async def test_what_somebody_else_answers_is_no_word_of_the_stream(client: Client, stream: Stream) -> None:
    async def respond(message: Msg) -> None:
        await message.respond(b"{}")

    await client.jetstream(timeout=HANG_S).delete_stream(stream.name)
    await client.subscribe(stream.subject("order", "o1"), cb=respond)
    async with publishing(client, stream, within_s=0.3) as publisher:
        with pytest.raises(NotPublished):
            await publisher.publish(Placed("o1", 5), aggregate="order/o1", version=1, id="a")
