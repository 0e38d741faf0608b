"""A NATS user that may not do everything: who waits for an answer is told at once which subject is to be granted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.nats_server import address, jetstream, server
from tests.support.waiting import HANG_S, eventually

from projectionist.core.nats import connections
from projectionist.core.nats.denials import SubjectDenied
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats
from projectionist.outbox.providers.nats import classify
from projectionist.outbox.providers.reply import Outcome
from projectionist.outbox.publishing.publish_acks import Acks, PublishAck
from projectionist.outbox.publishing.publisher import Publisher, PublishError
from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import JetStreamMissing, RequestDenied, StreamMissing
from projectionist.runner.jetstream.pull_source import JetStreamSource
from projectionist.runner.jetstream.stream_reader import scan

pytestmark = pytest.mark.asyncio

STREAM, DURABLE = "S", "d1"
INBOX = "_INBOX_shop"
ALL_OF_IT = (
    "$JS.API.STREAM.INFO.S",
    "$JS.API.STREAM.MSG.GET.S",
    "$JS.API.CONSUMER.*.S.>",
    "$JS.API.CONSUMER.MSG.NEXT.S.*",
    "$JS.ACK.S.>",
    "S.*.*",
)


def users(publish: Iterable[str], subscribe: Iterable[str]) -> str:
    """The administrator, one with these rights, and one who may subscribe to what is usual."""

    def rights(of: Iterable[str]) -> str:
        return "[" + ", ".join(f'"{one}"' for one in of) + "]"

    return f"""authorization {{ users = [
        {{ user: admin, password: x }}
        {{ user: shop, password: x,
           permissions: {{ publish: {rights(publish)}, subscribe: {rights(subscribe)} }} }}
        {{ user: other, password: x, permissions: {{ publish: "nothing", subscribe: "_INBOX.>" }} }}
    ] }}
    """


def settings(url: str, user: str) -> Nats:
    return Nats(url=(Url(url.replace("//", f"//{user}:x@")),), inbox_prefix=INBOX)


@asynccontextmanager
async def as_shop(
    folder: Path, *without: str, subscribe: Iterable[str] = (f"{INBOX}.>",)
) -> AsyncIterator[tuple[Client, Client]]:
    """The administrator, with a stream, and the shop's user without some of its rights."""
    rights = [one for one in ALL_OF_IT if one not in without]
    with server(folder, jetstream(folder) + users(rights, subscribe)) as running:
        url = await address(running)
        admin = await connections.connect(settings(url, "admin"), name="admin")
        client = await connections.connect(settings(url, "shop"), name="shop")
        await admin.jetstream().add_stream(name=STREAM, subjects=["S.>"])
        try:
            yield admin, client
        finally:
            await client.close()
            await admin.close()


def source(client: Client) -> JetStreamSource:
    return JetStreamSource(
        client,
        stream=STREAM,
        durable=DURABLE,
        subjects=Subjects(("S.order.{aggregate}",)),
        batch=10,
        ack_wait_s=1,
        contiguous=False,
        heartbeat_s=0.5,
    )


async def test_a_request_that_is_denied_names_the_subject_to_grant(tmp_path: Path) -> None:
    denied = "$JS.API.STREAM.INFO.S"
    async with as_shop(tmp_path, denied) as (_, client):
        with pytest.raises(RequestDenied, match="does not let this user publish to") as raised:
            await api.ask(client, denied, b"", api.StreamInfo, seconds=HANG_S)
        assert denied in raised.value.message
        assert "doctor --permissions" in (raised.value.remedy or "")
        assert "$JS.API.>" not in str(raised.value)


async def test_answers_that_may_not_be_heard_name_the_inbox_to_grant(tmp_path: Path) -> None:
    async with as_shop(tmp_path, subscribe=("_INBOX.>",)) as (_, client):
        for _ in range(2):
            with pytest.raises(RequestDenied, match=rf"subscribe to {INBOX}\.>"):
                await api.ask(client, "$JS.API.STREAM.INFO.S", b"", api.StreamInfo, seconds=HANG_S)
        with pytest.raises(SubjectDenied, match=rf"subscribe to {INBOX}\.>"):
            await Acks.open(client)


async def test_a_server_without_jetstream_is_told_apart_from_a_denial(tmp_path: Path) -> None:
    with server(tmp_path, users(ALL_OF_IT, [f"{INBOX}.>"])) as running:
        client = await connections.connect(settings(await address(running), "shop"), name="test")
        with pytest.raises(JetStreamMissing, match="JetStream is off"):
            await api.stream(client, STREAM)
        await client.close()


async def test_a_missing_stream_is_still_missing(tmp_path: Path) -> None:
    async with as_shop(tmp_path) as (admin, client):
        await admin.jetstream().delete_stream(STREAM)
        with pytest.raises(StreamMissing):
            await api.stream(client, STREAM)


async def test_a_source_that_may_not_order_messages_does_not_open(tmp_path: Path) -> None:
    async with as_shop(tmp_path, "$JS.API.CONSUMER.MSG.NEXT.S.*") as (_, client):
        reading = source(client)
        with pytest.raises(RequestDenied, match=r"publish to \$JS\.API\.CONSUMER\.MSG\.NEXT\.S\.d1"):
            await reading.open()
        await reading.close()


async def test_a_source_that_may_not_ack_says_so_in_place_of_events_for_ever(tmp_path: Path) -> None:
    async with as_shop(tmp_path, "$JS.ACK.S.>") as (admin, client):
        reading = source(client)
        await reading.open()
        await admin.jetstream().publish("S.order.o1", b"{}")
        reading.ack(await reading.take(10, 1000, 0))
        with pytest.raises(RequestDenied, match=r"publish to \$JS\.ACK\.(\*\.\*\.)?S\.d1\.>"):
            await taken_for_ever(reading)
        await reading.close()


async def taken_for_ever(reading: JetStreamSource) -> None:
    async with asyncio.timeout(HANG_S):
        while True:
            await reading.take(10, 1000, 0)


async def test_a_scan_that_is_denied_ends(tmp_path: Path) -> None:
    async with as_shop(tmp_path, "$JS.API.CONSUMER.*.S.>") as (admin, client):
        await admin.jetstream().publish("S.order.o1", b"{}")
        with pytest.raises(RequestDenied, match=r"CONSUMER\.CREATE\.S\.projectionist-scan-"):
            await anext(scan(client, STREAM, "S.>", 1, 1))


async def test_a_publish_that_is_denied_is_not_waited_for(tmp_path: Path) -> None:
    async with as_shop(tmp_path, "S.*.*") as (_, client):
        publisher = Publisher(client, source="shop", subject="S.{type}.{aggregate}", within_s=HANG_S)
        async with publisher:
            draft = publisher.draft({"x": 1}, aggregate="order/O1", type="placed", version=1, id="e1")
            with pytest.raises(
                PublishError, match=r"does not let this user publish to S\.order\.O1"
            ) as raised:
                await publisher.send(draft)
        assert "doctor --permissions" in (raised.value.remedy or "")


async def test_an_intent_whose_publish_is_denied_is_unknown_at_once(tmp_path: Path) -> None:
    """Rights may change between two publishes of a subject: it is looked up, not taken for unsent."""
    async with as_shop(tmp_path, "S.*.*") as (_, client):
        acks = await Acks.open(client)
        answered = classify(await acked(acks, "S.order.O1"))
        assert answered.outcome is Outcome.UNKNOWN
        assert "does not let this user publish" in answered.reason
        await acks.close()


async def acked(acks: Acks, subject: str) -> PublishAck:
    found = await acks.publish(subject, b"{}", {"Nats-Msg-Id": "1"}, HANG_S)
    assert found is not None
    return found


async def test_who_may_hear_the_usual_inboxes_hears_nothing_of_ours(tmp_path: Path) -> None:
    async with as_shop(tmp_path) as (admin, client):
        heard: list[str] = []

        async def hear(message: Msg) -> None:
            heard.append(message.subject)

        other = await connections.connect(
            Nats(url=settings(await address(tmp_path), "other").url, inbox_prefix="_INBOX"),
            name="other",
        )
        await other.subscribe("_INBOX.>", cb=hear)
        await other.flush()
        reading = source(client)
        await reading.open()
        async with Publisher(client, source="shop", subject="S.{type}.{aggregate}") as publisher:
            await publisher.send(
                publisher.draft({"x": 1}, aggregate="order/o1", type="placed", version=1, id="e1")
            )
        reading.ack(await reading.take(10, 1000, 0))
        await reading.pending()
        async for block in scan(client, STREAM, "S.>", 1, 1):
            assert len(block) == 1
        await admin.publish("_INBOX.usual", b"")  # what it hears of comes after all of that
        await eventually(lambda: is_in("_INBOX.usual", heard))
        assert heard == ["_INBOX.usual"]
        await reading.close()
        await other.close()


async def is_in(one: str, several: list[str]) -> bool:
    return one in several
