"""Where a benchmark stands: servers, a stream with the load, and for every run a schema of its own. All of it goes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import asyncpg
import msgspec
from nats.js.errors import NotFoundError

from projectionist.bench.children import BenchError, finished
from projectionist.bench.load import SOURCE, Load, LoadMessage, messages
from projectionist.bench.meters import OURS, Meter
from projectionist.bench.scene import Scene
from projectionist.core import project_servers
from projectionist.core.identifiers import quoted
from projectionist.core.nats import connections
from projectionist.core.postgres import connections as db
from projectionist.core.postgres.statements import Statements
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import FILE, Nats, Postgres, Settings
from projectionist.core.settings.settings import load as load_settings
from projectionist.ops.embedded import Embedded, temporary

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.postgres.connections import Connection

FILLING_S = 3600


class Ground:
    """A stream, and a connection to each server."""

    def __init__(
        self, settings: Settings, connection: Connection, client: Client, stream: str, meter: Meter
    ) -> None:
        self.settings = settings
        self.meter = meter
        self.connection = connection
        self.client = client
        self.stream = stream

    def subject(self, message: LoadMessage) -> str:
        """Return where a message goes."""
        return f"{self.stream}.order.{message.order}"

    @property
    def told_subjects(self) -> str:
        """Return where the relays of a benchmark publish."""
        return f"{self.stream}.told.*"

    async def publish(self, load: Load) -> None:
        """Put the whole load into the stream; returns when all of it is there."""
        jetstream = self.client.jetstream(publish_async_max_pending=2000)
        for message in messages(load):
            await jetstream.publish_async(self.subject(message), message.body, headers=message.headers)
        await jetstream.publish_async_completed()
        stored = (await jetstream.stream_info(self.stream)).state.messages
        if stored != load.messages:
            raise BenchError(f"the stream holds {stored} of {load.messages} messages", remedy="Try again")

    @asynccontextmanager
    async def scene(
        self,
        *,
        app: str = "plain",
        past: int = 0,
        random_ids: bool = False,
        found_in: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Scene]:
        """Yield a fresh schema with the app's consumers registered and their tables made, by the code that is
        `found_in` this environment; `past` events fill the inbox of the first beforehand."""
        scene = Scene(self.stream, f"bench_{token_hex(4)}")
        try:
            await finished(self.settings, scene, ("-m", "projectionist.bench.prepare", app), found_in)
            sql = Statements("projectionist.bench", scene.schema)
            rows = await self.connection.fetch(sql["registered"])
            durables = tuple(row["durable"] for row in rows)
            scene = msgspec.structs.replace(scene, durables=durables, consumer=rows[0]["number"])
            if past:
                arguments = scene.consumer, past, SOURCE, random_ids
                await self.connection.execute(sql["fill_inbox"], *arguments, timeout=FILLING_S)
            await self.settle_down()
            yield scene
        finally:
            await self._clean(scene)

    async def settle_down(self) -> None:
        """Begin after a checkpoint, where we may ask for one: else it falls into some runs and not into others."""
        try:
            await self.connection.execute("checkpoint", timeout=FILLING_S)
        except asyncpg.InsufficientPrivilegeError:
            return

    async def _clean(self, scene: Scene) -> None:
        await self.connection.execute(f"drop schema if exists {quoted(scene.schema)} cascade")
        for durable in scene.durables:
            with suppress(NotFoundError):
                await self.client.jetstream().delete_consumer(scene.stream, durable)


@asynccontextmanager
async def ground(settings: Settings, embedded: Embedded | None = None) -> AsyncIterator[Ground]:
    """Yield connections to both servers and an empty stream. What servers use is known of `embedded` ones."""
    connection = await db.connect(settings.postgres, application_name=OURS)
    try:
        await connection.execute("set statement_timeout = 0")  # filling an inbox takes its time
        client = await connections.connect(settings.nats, name=OURS)
        stream = f"BENCH_{token_hex(4)}"
        try:
            await client.jetstream().add_stream(
                name=stream, subjects=[f"{stream}.order.*", f"{stream}.told.*"]
            )
            try:
                yield Ground(settings, connection, client, stream, Meter(connection, embedded))
            finally:
                await client.jetstream().delete_stream(stream)
        finally:
            await client.close()
    finally:
        await connection.close()


@contextmanager
def servers(*, sync_always: bool) -> Iterator[tuple[Settings, Embedded | None]]:
    """Yield the servers that the settings name, or a pair of this benchmark alone, which comes second."""
    file = project_servers.find(Path.cwd(), FILE).parent / FILE
    found = load_settings(file if file.is_file() else None)
    if bool(found.postgres.url) != bool(found.nats.url):
        raise BenchError("only one of postgres.url and nats.url is set", remedy="Set both, or neither")
    if found.postgres.url is not None:
        if sync_always:
            raise BenchError(
                "--sync is for servers of the benchmark's own", remedy="Set sync_interval in your NATS server"
            )
        yield Settings(postgres=found.postgres, nats=found.nats), None
        return
    with temporary(durable=True, sync_always=sync_always) as embedded:
        addresses = embedded.up()
        postgres, nats = Postgres(url=Url(addresses.postgres_url)), Nats(url=(Url(addresses.nats_url),))
        yield Settings(postgres=postgres, nats=nats), embedded
