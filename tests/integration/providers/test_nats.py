"""Derived events on a real stream: deduplicated, acked, and found again when the ack was lost."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from nats.aio.msg import Msg
from nats.js.api import StreamConfig
from tests.support.letters import UNPRINTABLE
from tests.support.nats_calls import connected, publisher, rendered, sent
from tests.support.servers import Servers, Stream
from tests.support.waiting import HEARD_S

from projectionist.core import clock
from projectionist.core.errors import ProjectionistError, SettingsError
from projectionist.core.settings.settings import Settings
from projectionist.core.settings.sources import Layers, build
from projectionist.outbox.providers import NatsPublish, Outcome, ProviderContext, Reply, Request
from projectionist.outbox.providers.base import NotReady
from projectionist.outbox.providers.nats import NatsSettings, classify
from projectionist.outbox.providers.runtime import attempt, prepare
from projectionist.outbox.publishing.publish_acks import AckError, PublishAck

pytestmark = pytest.mark.asyncio


async def test_an_intent_becomes_an_event_and_the_ack_is_kept(servers: Servers, stream: Stream) -> None:
    headers = {"ce-aggregateid": "{order_id}"}
    async with (
        connected(servers) as client,
        publisher(client, stream.subject("{order_id}"), headers=headers) as events,
    ):
        reply = await sent(events, traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
        message = await client.jetstream().get_msg(stream.name, 1)
    assert (reply.outcome, reply.status, reply.provider_id) == (Outcome.SENT, "stored", f"{stream.name}:1")
    assert message.subject == stream.subject("o-1")
    assert message.data == b'{"order_id":"o-1"}'
    assert message.headers is not None
    assert {
        name: message.headers[name] for name in ("ce-id", "Nats-Msg-Id", "ce-type", "ce-causationid")
    } == {
        "ce-id": "k1",
        "Nats-Msg-Id": "k1",
        "ce-type": "OrderShipped",
        "ce-causationid": "event-1",
    }
    assert message.headers["ce-aggregateid"] == "o-1"
    assert message.headers["traceparent"].startswith("00-aaaa")


async def test_a_repeat_inside_the_window_is_a_duplicate(servers: Servers, stream: Stream) -> None:
    async with connected(servers) as client, publisher(client, stream.subject("x")) as events:
        replies = [await sent(events) for _ in range(2)]
        info = await client.jetstream().stream_info(stream.name)
    assert [(r.outcome, r.replayed) for r in replies] == [(Outcome.SENT, False), (Outcome.SENT, True)]
    assert info.state.messages == 1


async def test_a_stream_that_vanished_stores_nothing_for_certain(servers: Servers, stream: Stream) -> None:
    async with connected(servers) as client, publisher(client, stream.subject("x")) as events:
        await client.jetstream().delete_stream(stream.name)
        assert (await sent(events)).outcome is Outcome.NOT_SENT


async def test_a_stream_that_is_full_is_tried_again(servers: Servers, stream: Stream) -> None:
    async with connected(servers) as client:
        config = (await client.jetstream().stream_info(stream.name)).config
        await client.jetstream().update_stream(config.evolve(max_msgs=1, discard="new"))
        async with publisher(client, stream.subject("x")) as events:
            assert [(await sent(events, key=key)).outcome for key in "ab"] == [Outcome.SENT, Outcome.RETRY]


async def test_what_is_too_large_is_refused(servers: Servers, stream: Stream) -> None:
    async with connected(servers) as client, publisher(client, stream.subject("x")) as events:
        assert (await sent(events, order="x" * (client.max_payload + 1))).outcome is Outcome.REFUSED


@pytest.mark.parametrize("subject", ["", "a b", "a.\r\nPUB x 0\r\n"])
async def test_what_nats_can_never_take_is_refused_and_published_nowhere(
    servers: Servers, stream: Stream, subject: str
) -> None:
    class Own(NatsPublish):
        def render(self, request: Request) -> bytes:
            return msgspec.json.encode({"subject": subject, "headers": {}})

    async with connected(servers) as client, publisher(client, stream.subject("x"), cls=Own) as events:
        assert (await sent(events)).outcome is Outcome.REFUSED
        assert (await client.jetstream().stream_info(stream.name)).state.messages == 0


async def test_a_header_that_has_no_valid_name_is_refused_at_the_start() -> None:
    with pytest.raises(SettingsError, match="cannot be the name of a header"):
        build(
            *(NatsSettings, {"subject": "x", "headers": {"a b": "c"}}, ("providers", "events")),
            Layers(Settings, None, {}),
        )


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"subject": "x", "headers": {"Nats-Rollup": "{order_id}"}}, "an order to the server"),
        ({"subject": "x", "headers": {"nats-expected-last-sequence": "1"}}, "an order to the server"),
        ({"subject": "$JS.API.STREAM.PURGE.{order_id}"}, "begins with"),
        ({"subject": "${order_id}.x"}, "begins with"),
    ],
)
async def test_an_order_to_the_server_is_refused_at_the_start(section: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        build(NatsSettings, section, ("providers", "events"), Layers(Settings, None, {}))


async def test_content_that_would_make_a_subject_of_the_server_is_refused() -> None:
    settings = build(
        NatsSettings, {"subject": "{order_id}.x"}, ("providers", "events"), Layers(Settings, None, {})
    )
    for value in ("$JS", "$SYS", "$"):
        body = msgspec.json.encode({"order_id": value})
        request = Request(key="k", provider="events", destination="events", intent="I", body=body)
        reply = prepare(NatsPublish("events", settings, ProviderContext()), request)
        assert isinstance(reply, Reply)
        assert (reply.outcome, "begin with $" in reply.reason) == (Outcome.REFUSED, True)


async def test_without_a_connection_nothing_is_sent_nor_kept_for_later(
    servers: Servers, stream: Stream
) -> None:
    async with connected(servers) as client, publisher(client, stream.subject("x")) as events:
        request = await rendered(events)
        await client.close()
        assert (await attempt(events, request)).outcome is Outcome.NOT_SENT
        assert (await events.lookup(request)).outcome is Outcome.RETRY


async def test_a_lease_that_ended_publishes_nothing(servers: Servers, stream: Stream) -> None:
    async with connected(servers) as client, publisher(client, stream.subject("x")) as events:
        late = await rendered(events, not_after=clock.now() - 1)
        assert (await events.send(late)).outcome is Outcome.NOT_SENT
        assert (await client.jetstream().stream_info(stream.name)).state.messages == 0


async def test_an_ack_that_never_comes_is_unknown(servers: Servers) -> None:
    async with connected(servers) as client:
        deaf = await client.subscribe("deaf.>")
        await client.jetstream().add_stream(StreamConfig(name="DEAF", subjects=["deaf.>"], no_ack=True))
        try:
            async with publisher(client, "deaf.x") as events:
                reply = await sent(events, timeout_s=HEARD_S)
                found = await events.lookup(await rendered(events))
        finally:
            await client.jetstream().delete_stream("DEAF")
            await deaf.unsubscribe()
    assert reply.outcome is Outcome.UNKNOWN
    assert found.outcome is Outcome.SENT  # the hint taken at the start still lies before it


@pytest.mark.parametrize("answer", [b"hello", b"", b"{}", b'{"status":"ok"}', b'{"stream":"x","seq":0}'])
async def test_an_answer_that_is_no_ack_is_unknown(servers: Servers, stream: Stream, answer: bytes) -> None:
    async def respond(message: Msg) -> None:
        await message.respond(answer)

    async with connected(servers) as client, publisher(client, stream.subject("x")) as events:
        await client.jetstream().delete_stream(stream.name)
        stranger = await client.subscribe(stream.subject("x"), cb=respond)
        reply = await sent(events)
        await stranger.unsubscribe()
    assert reply.outcome is Outcome.UNKNOWN


async def test_many_at_once_each_get_their_own_ack(servers: Servers, stream: Stream) -> None:
    async with connected(servers) as client, publisher(client, stream.subject("x")) as events:
        replies = await asyncio.gather(*(sent(events, key=f"k{n}") for n in range(500)))
    assert sorted(int(r.provider_id.rpartition(":")[2]) for r in replies) == list(range(1, 501))


async def test_a_subject_no_stream_takes_is_told_at_start(servers: Servers, stream: Stream) -> None:
    async with connected(servers) as client:
        with pytest.raises(NotReady, match="no stream takes the subject nowhere"):
            async with publisher(client, "nowhere.{id}.x"):
                pass
        with pytest.raises(NotReady, match="no stream takes"):
            async with publisher(client, stream.subject("x"), stream="ABSENT"):
                pass


async def test_without_a_connection_to_give_it_the_provider_says_so() -> None:
    settings = build(NatsSettings, {"subject": "x"}, ("providers", "events"), Layers(Settings, None, {}))
    with pytest.raises(ProjectionistError, match="needs a NATS connection"):
        await NatsPublish("events", settings, ProviderContext()).open()


@pytest.mark.parametrize("value", ["", "a.b", "a b", "*", ">", "a\r\nb", "x" * 512])
async def test_a_field_is_one_token_of_the_subject(servers: Servers, stream: Stream, value: str) -> None:
    async with connected(servers) as client, publisher(client, stream.subject("{order_id}")) as events:
        body = msgspec.json.encode({"order_id": value})
        request = Request(key="k", provider="events", destination="events", intent="I", body=body)
        reply = prepare(events, request)
    assert isinstance(reply, Reply)
    assert reply.outcome is Outcome.REFUSED


@pytest.mark.parametrize("header", ["", "ce-id", "ce-AggregateId", "ce-correlationid"])
async def test_no_event_is_published_with_a_text_that_its_readers_would_refuse(
    servers: Servers, stream: Stream, header: str
) -> None:
    subject, headers = ("x", {header: "{order_id}"}) if header else ("{order_id}", {})

    async with (
        connected(servers) as client,
        publisher(client, stream.subject(subject), stream=stream.name, headers=headers) as events,
    ):

        def outcome(value: str) -> Outcome | None:
            body = msgspec.json.encode({"order_id": value})
            request = Request(key="k", provider="events", destination="events", intent="I", body=body)
            reply = prepare(events, request)
            return reply.outcome if isinstance(reply, Reply) else None

        for letter in UNPRINTABLE:
            if not "\ud800" <= letter <= "\udfff":  # which no body holds
                assert outcome(f"a{letter}b") is Outcome.REFUSED, ascii(letter)
        assert outcome("é" * 400) is Outcome.REFUSED
        assert outcome("é" * 100) is None


@pytest.mark.parametrize("field", ["source", "type"])
async def test_a_source_or_a_type_that_readers_would_refuse_is_refused_at_the_start(field: str) -> None:
    with pytest.raises(SettingsError, match=f"{field}.*cannot be printed"):
        build(
            *(NatsSettings, {"subject": "x", field: "a\x1fb"}, ("providers", "events")),
            Layers(Settings, None, {}),
        )


@pytest.mark.parametrize(
    ("ack", "outcome"),
    [
        (PublishAck(stream="S", seq=1), Outcome.SENT),
        (PublishAck(stream="S", seq=1, duplicate=True), Outcome.SENT),
        (PublishAck(no_responders=True), Outcome.NOT_SENT),
        (PublishAck(error=AckError(503, 10077, "maximum messages exceeded")), Outcome.RETRY),
        (PublishAck(error=AckError(429, 10167, "too many requests")), Outcome.RETRY),
        (PublishAck(error=AckError(400, 10054, "message size exceeds maximum allowed")), Outcome.REFUSED),
        (PublishAck(error=AckError(400, 10060, "expected stream does not match")), Outcome.REFUSED),
        (PublishAck(error=AckError(409, 10158, "duplicate message id is in process")), Outcome.IN_FLIGHT),
        (PublishAck(error=AckError(500, 0, "not an ack")), Outcome.UNKNOWN),
    ],
)
async def test_an_ack_has_one_outcome(ack: PublishAck, outcome: Outcome) -> None:
    assert classify(ack).outcome is outcome
