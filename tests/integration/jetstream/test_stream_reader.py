"""Reading without acks loses nothing: a hole, a lost reader or broker means reading on behind the last good one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from nats.aio.client import Client
from tests.support.consumer_harness import ConsumerHarness
from tests.support.servers import Servers, Stream
from tests.support.shop import OrderPlaced
from tests.support.waiting import listening

from projectionist.core.nats import connections
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.nats.subject_relations import ALL
from projectionist.runner.jetstream import stream_reader as scanning
from projectionist.runner.jetstream.pull_buffer import Pulls
from projectionist.runner.jetstream.stream_reader import ReadTimes, fetch, scan, sequence

pytestmark = pytest.mark.asyncio

MANY = 500


@pytest_asyncio.fixture
async def client(live: ConsumerHarness) -> AsyncIterator[Client]:
    """A client on a stream of five hundred messages."""
    await live.publish_all([(OrderPlaced("ann", n), f"o{n}", 1, f"e{n}") for n in range(MANY)])
    made = await connections.connect(live.settings.nats, name="scan")
    yield made
    await made.close()


async def read(client: Client, stream: Stream, first: int = 1, last: int = MANY) -> list[int]:
    return [sequence(one) async for block in scan(client, stream.name, ALL, first, last) for one in block]


async def test_every_message_of_a_range_comes_once_and_in_order(client: Client, stream: Stream) -> None:
    assert await read(client, stream) == list(range(1, MANY + 1))
    assert await read(client, stream, 100, 120) == list(range(100, 121))
    assert await read(client, stream, 400, 10 * MANY) == list(range(400, MANY + 1))
    assert await read(client, stream, MANY + 1, 10 * MANY) == []


async def test_a_message_lost_on_the_way_is_noticed_and_read_again(
    client: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, lost = Pulls.cut, [7, 0, 40]

    def lossy(self: Pulls, most: int, most_bytes: int) -> list[Arrival]:
        arrivals = cut(self, 100, most_bytes)
        if lost and lost[-1] < len(arrivals):
            del arrivals[lost.pop()]
        return arrivals

    monkeypatch.setattr(Pulls, "cut", lossy)
    assert await read(client, stream) == list(range(1, MANY + 1))
    assert lost == []


async def test_a_reader_that_the_broker_has_lost_is_made_anew(
    client: Client, live: ConsumerHarness, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "AT_ONCE", 50)
    monkeypatch.setattr(scanning, "BLOCK", 20)
    seen: list[int] = []
    soon = ReadTimes(heartbeat_s=0.2, retry_s=0.01)
    async for block in scan(client, stream.name, ALL, 1, MANY, times=soon):
        seen += [sequence(one) for one in block]
        if len(seen) in range(100, 140):
            for info in await live.nats.jetstream().consumers_info(stream.name):
                await live.nats.jetstream().delete_consumer(stream.name, info.name)
    assert seen == list(range(1, MANY + 1))


async def test_a_broker_that_goes_and_comes_back_is_read_on(
    client: Client, servers: Servers, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "AT_ONCE", 50)
    monkeypatch.setattr(scanning, "BLOCK", 20)
    seen: list[int] = []
    killed = False
    async for block in scan(client, stream.name, ALL, 1, MANY):
        seen += [sequence(one) for one in block]
        if len(seen) > 100 and not killed:
            killed = True
            servers.kill_nats()
            servers.up()
    assert seen == list(range(1, MANY + 1))


async def test_single_messages_are_fetched_and_what_is_gone_is_missing(
    client: Client, live: ConsumerHarness, stream: Stream
) -> None:
    await live.nats.jetstream().delete_msg(stream.name, 300)
    wanted = [1, 2, *range(100, 200), 300, 499]
    found: dict[int, Any] = await fetch(client, stream.name, ALL, wanted)
    assert sorted(found) == [1, 2, *range(100, 200), 499]
    assert {sequence(one) for one in found.values()} == set(found)


async def test_single_messages_are_asked_for_again_where_the_broker_did_not_answer(
    client: Client, servers: Servers, stream: Stream
) -> None:
    with listening() as heard:
        fetching = asyncio.create_task(fetch(client, stream.name, ALL, [1, 100, 300]))
        with servers.nats_stopped():
            await heard.wait("scan.unanswered")
        assert sorted(await fetching) == [1, 100, 300]
