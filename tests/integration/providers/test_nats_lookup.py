"""Looking up in a stream whether an intent is there: what is found is sure, and when its absence is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from nats.js.api import SubjectTransform
from tests.support.nats_calls import connected, publisher, rendered, sent
from tests.support.servers import Servers, Stream
from tests.support.stream_files import StreamFiles

from projectionist.outbox.providers import Outcome
from projectionist.outbox.providers.runtime import attempt

pytestmark = pytest.mark.asyncio


async def test_memory_is_the_streams_own_window(servers: Servers, stream: Stream) -> None:
    async with connected(servers) as client:
        config = (await client.jetstream().stream_info(stream.name)).config
        await client.jetstream().update_stream(config.evolve(duplicate_window=7))
        async with publisher(client, stream.subject("x")) as events:
            assert events.profile.memory_s == 7


async def test_a_lookup_finds_what_is_there_and_is_sure_of_what_is_not(
    servers: Servers, stream: Stream
) -> None:
    async with connected(servers) as client, publisher(client, stream.subject("{order_id}")) as events:
        done, other = await rendered(events, "k1"), await rendered(events, "k2")
        for noise in range(5):
            await sent(events, key=f"noise-{noise}")
        await attempt(events, done)
        found, absent = await events.lookup(done), await events.lookup(other)
    assert (found.outcome, found.provider_id) == (Outcome.SENT, f"{stream.name}:6")
    assert absent.outcome is Outcome.NOT_SENT


async def test_a_lookup_is_not_sure_once_the_stream_dropped_something(
    servers: Servers, stream: Stream
) -> None:
    async with connected(servers) as client, publisher(client, stream.subject("x")) as events:
        request = await rendered(events, "k1")
        for number in range(3):
            await sent(events, key=f"noise-{number}")
        await client.jetstream().delete_msg(stream.name, 2)
        assert (await events.lookup(request)).outcome is Outcome.UNKNOWN
        await client.jetstream().purge_stream(stream.name)
        assert (await events.lookup(request)).outcome is Outcome.UNKNOWN


async def test_a_lookup_in_a_stream_made_anew_is_not_sure(servers: Servers, stream: Stream) -> None:
    async with connected(servers) as client, publisher(client, stream.subject("x")) as events:
        request = await rendered(events, "k1")
        manager = client.jetstream()
        config = (await manager.stream_info(stream.name)).config
        await manager.delete_stream(stream.name)
        await manager.add_stream(config)
        reply = await events.lookup(request)
    assert (reply.outcome, "not the one" in reply.reason) == (Outcome.UNKNOWN, True)


async def test_a_lookup_in_a_stream_that_lost_its_end_is_not_sure(
    servers: Servers, stream: Stream, tmp_path: Path
) -> None:
    """What is stored below the hint, since the stream has gone back, is not looked for; so nobody says it is absent."""
    async with connected(servers) as client, publisher(client, stream.subject("x")) as events:
        files = StreamFiles(servers, client, stream.name, tmp_path)
        for number in range(3):
            await sent(events, key=f"early-{number}")
        await files.keep()
        for number in range(3):
            await sent(events, key=f"lost-{number}")
        await files.put_back()
        below = await rendered(events, "k1")
        stored = await attempt(events, below)
        assert (stored.outcome, stored.provider_id) == (Outcome.SENT, f"{stream.name}:4")
        short = await events.lookup(below)
        for number in range(5):
            await sent(events, key=f"later-{number}")
        over = await events.lookup(below)
        assert [
            (short.outcome, "lost its end" in short.reason),
            (over.outcome, "lost its end" in over.reason),
        ] == [(Outcome.UNKNOWN, True)] * 2
        done, other = await rendered(events, "k2"), await rendered(events, "k3")
        await attempt(events, done)
        assert (await events.lookup(done)).outcome is Outcome.SENT
        assert (await events.lookup(other)).outcome is Outcome.NOT_SENT


async def test_a_lookup_beside_messages_without_an_id_is_sure_too(servers: Servers, stream: Stream) -> None:
    async with connected(servers) as client:
        await client.jetstream().publish(stream.subject("y"), b"a stranger's")
        async with publisher(client, stream.subject("x")) as events:
            request = await rendered(events)
            assert (await events.lookup(request)).outcome is Outcome.NOT_SENT


@pytest.mark.parametrize("hint", [None, "", "2026-01-01 7", "2026-01-01|x|y"])
async def test_without_a_hint_a_lookup_is_not_sure(
    servers: Servers, stream: Stream, hint: str | None
) -> None:
    async with connected(servers) as client, publisher(client, stream.subject("x")) as events:
        request = msgspec.structs.replace(await rendered(events), lookup_hint=hint)
        assert (await events.lookup(request)).outcome is Outcome.UNKNOWN


async def test_a_lookup_that_gets_too_long_is_left_to_a_person(
    servers: Servers, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("projectionist.outbox.providers.nats.MOST_SCANNED", 2)
    async with connected(servers) as client, publisher(client, stream.subject("x")) as events:
        request = await rendered(events, "k1")
        for number in range(3):
            await sent(events, key=f"noise-{number}")
        assert (await events.lookup(request)).outcome is Outcome.UNKNOWN


async def test_a_lookup_in_a_stream_that_renames_subjects_trusts_finds_but_no_absence(
    servers: Servers, stream: Stream
) -> None:
    async with connected(servers) as client:
        config = (await client.jetstream().stream_info(stream.name)).config
        moved = SubjectTransform(src=stream.subject("x"), dest=stream.subject("y"))
        await client.jetstream().update_stream(config.evolve(subject_transform=moved))
        async with publisher(client, stream.subject("x")) as events:
            request = await rendered(events)
            unsent = await rendered(events, key="never sent")
            unsent = msgspec.structs.replace(unsent, lookup_hint=await events.lookup_hint(unsent))
            assert (await attempt(events, request)).outcome is Outcome.SENT
            assert (await events.lookup(request)).outcome is Outcome.SENT
            assert (await events.lookup(unsent)).outcome is Outcome.UNKNOWN


async def test_a_lookup_is_not_sure_once_a_stream_no_longer_renames_as_it_did(
    servers: Servers, stream: Stream
) -> None:
    async with connected(servers) as client:
        js = client.jetstream()
        config = (await js.stream_info(stream.name)).config
        moved = SubjectTransform(
            src=f"{stream.name}.shipped.*", dest=f"{stream.name}.gone.{{{{wildcard(1)}}}}"
        )
        await js.update_stream(config.evolve(subject_transform=moved))
        async with publisher(client, stream.subject("shipped", "{order_id}")) as events:
            request = await rendered(events)
            assert (await attempt(events, request)).outcome is Outcome.SENT
            await js.update_stream(config)
            assert (await events.lookup(request)).outcome is Outcome.UNKNOWN
