"""Where a benchmark stands: servers, a stream with the load, and for every run a schema of its own. All of it goes."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import asyncpg
import msgspec
from nats.js.api import StreamConfig

from projectionist.core import broker, db
from projectionist.core.errors import ProjectionistError
from projectionist.core.identifiers import quoted
from projectionist.core.secret import Url
from projectionist.core.settings import FILE, Nats, Postgres, Settings, load
from projectionist.core.sql import Statements
from projectionist.ops.bench import children
from projectionist.ops.bench.load import SOURCE, Load, Message, messages
from projectionist.ops.bench.scene import Scene
from projectionist.ops.embedded import Embedded, home

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.db import Connection

PACKAGE = "projectionist.ops.bench"


class BenchError(ProjectionistError):
    """A benchmark cannot be run, or a contender did not do its work."""


class Ground:
    """One stream, and connections to both servers."""

    def __init__(self, settings: Settings, connection: Connection, client: Client, stream: str, *, own: bool) -> None:
        self.settings = settings
        self.connection = connection
        self.client = client
        self.stream = stream
        self.own = own
        """Whether the servers run for this benchmark alone."""

    @asynccontextmanager
    async def scene(self, past: int = 0, *, random_ids: bool = False) -> AsyncIterator[Scene]:
        """A fresh schema with the consumer registered and its table made; `past` fills its inbox beforehand."""
        scene = Scene(self.stream, f"bench_{token_hex(4)}")
        try:
            await children.migrate(self.settings, scene)
            sql = Statements(PACKAGE, scene.schema)
            number, durable = await self.connection.fetchrow(sql["registered"]) or (0, "")
            if past:
                await self.connection.execute(sql["fill_inbox"], number, past, SOURCE, random_ids, timeout=3600)
                await self.connection.execute(sql["analyze"], timeout=3600)
            await self._settle_down()
            yield msgspec.structs.replace(scene, durable=durable, consumer=number)
        finally:
            await self.connection.execute(f"drop schema if exists {quoted(scene.schema)} cascade")

    async def publish(self, load: Load) -> None:
        """Put the whole load into the stream, and wait until it is there."""
        jetstream = self.client.jetstream(publish_async_max_pending=2000)
        for message in messages(load):
            await jetstream.publish_async(self.subject(message), message.body, headers=message.headers)
        await jetstream.publish_async_completed()
        stored = (await jetstream.stream_info(self.stream)).state.messages
        if stored != load.events:
            raise BenchError(f"the stream holds {stored} of {load.events} events", remedy="Try again")

    def subject(self, message: Message) -> str:
        """Where a message goes."""
        return f"{self.stream}.order.{message.order}"

    async def _settle_down(self) -> None:
        """Let every run begin after a checkpoint, where we may ask for one: else it falls into some and not others."""
        try:
            await self.connection.execute("checkpoint")
        except asyncpg.InsufficientPrivilegeError:
            return


@asynccontextmanager
async def ground(*, sync_always: bool) -> AsyncIterator[Ground]:
    """Servers of this benchmark alone, or those that the settings name; connections, and an empty stream."""
    file = home.find(Path.cwd()).parent / FILE
    found = load(file if file.is_file() else None)
    if bool(found.postgres.url) != bool(found.nats.url):
        raise BenchError("one of postgres.url and nats.url is set", remedy="Set both, or neither")
    if found.postgres.url is None:
        with _embedded(sync_always=sync_always) as settings:
            async with _connected(settings, own=True) as made:
                yield made
        return
    if sync_always:
        raise BenchError("--sync is for servers of the benchmark's own", remedy="Set sync_interval on your NATS server")
    async with _connected(Settings(postgres=found.postgres, nats=found.nats), own=False) as made:
        yield made
