"""A bench for sources: one stream, one client under test, and a client of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig
from tests.support.peers import patient
from tests.support.servers import Servers, Stream
from tests.support.waiting import HANG_S

from projectionist.core.nats import connections
from projectionist.core.nats.fast_client import Arrival
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats
from projectionist.projections.compiled.subject_pattern import Subjects
from projectionist.runner.jetstream.ack_subject import parse_ack_subject
from projectionist.runner.jetstream.pull_source import JetStreamSource

MANY = 16 << 20
DURABLE = "orders"


async def quiet(_: Exception) -> None:
    """Servers are killed here."""


class Bench:
    """One stream, one client under test, and a client of the test's own."""

    def __init__(self, servers: Servers, stream: Stream, stack: AsyncExitStack) -> None:
        self.servers, self.stream, self._stack = servers, stream, stack
        self.client: Client
        self.js: JetStreamContext

    async def start(self, url: str) -> None:
        options: dict[str, Any] = {
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": 0.05,
            "error_cb": quiet,
        }
        own = await patient(self.servers.nats_url, **options)
        self._stack.push_async_callback(own.close)
        self.js = own.jetstream()
        self.client = await self.connect(url)

    async def connect(self, url: str = "") -> Client:
        client = await connections.connect(Nats(url=(Url(url or self.servers.nats_url),)), name="test")
        self._stack.push_async_callback(client.close)
        return client

    def source(self, client: Client | None = None, **changes: Any) -> JetStreamSource:
        kept: dict[str, Any] = {
            "stream": self.stream.name,
            "durable": DURABLE,
            "subjects": Subjects([self.stream.subject("order", "{aggregate}")]),
            "batch": 10,
            "ack_wait_s": 30,
            "contiguous": True,
        }
        return JetStreamSource(client or self.client, **kept | changes)

    async def open(self, client: Client | None = None, **changes: Any) -> JetStreamSource:
        source = self.source(client, **changes)
        await source.open()
        self._stack.push_async_callback(source.close)
        return source

    async def publish(self, count: int, *tokens: str, headers: dict[str, str] | None = None) -> None:
        for number in range(count):
            subject = self.stream.subject(*(tokens or ("order", str(number))))
            await self.js.publish(subject, b"%d" % number, headers=headers)

    async def consumer(self) -> dict[str, Any]:
        answer = await self.client.request(
            f"$JS.API.CONSUMER.INFO.{self.stream.name}.{DURABLE}", timeout=HANG_S
        )
        found: dict[str, Any] = msgspec.json.decode(answer.data)
        return found


def sequences(arrivals: Sequence[Arrival]) -> list[int]:
    return [parse_ack_subject(arrival.reply)[0] for arrival in arrivals]


async def take_all(source: JetStreamSource, count: int, most: int = 1000) -> list[Arrival]:
    taken: list[Arrival] = []
    async with asyncio.timeout(HANG_S):
        while len(taken) < count:
            taken += await source.take(most, MANY, 0.005)
    return taken


async def nothing_comes(source: JetStreamSource, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await source.take(10, MANY, 0)
    except TimeoutError:
        return True
    return False


def named(bench: Bench, config: dict[str, Any]) -> ConsumerConfig:
    """A durable of our name, made by somebody else."""
    wanted = {"durable_name": DURABLE, "ack_policy": "explicit", "deliver_policy": "all"} | config
    made = msgspec.json.encode(wanted).replace(b"{name}", bench.stream.name.encode())
    return ConsumerConfig(**msgspec.json.decode(made))


async def publishes(bench: Bench) -> bool:
    try:
        await bench.js.publish(bench.stream.subject("order", "7"), b"after", timeout=0.5)
    except (nats.errors.Error, TimeoutError):
        return False
    return True


class OnBench:
    """Tests that have a bench. A subclass says how to connect."""

    @pytest.fixture
    def way(self) -> None:
        """What a subclass changes before a client is made."""

    @pytest_asyncio.fixture
    async def bench(self, servers: Servers, stream: Stream, way: None) -> AsyncIterator[Bench]:
        async with AsyncExitStack() as stack:
            bench = Bench(servers, stream, stack)
            await bench.start(servers.nats_url)
            yield bench
