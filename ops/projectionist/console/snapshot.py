"""One look at the servers for all who look at pages, however many they are: one statement a second at most."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import asyncpg
import msgspec

from projectionist.console.kept_connections import KeptConnection, KeptConnections
from projectionist.core import clock
from projectionist.core.errors import ProjectionistError
from projectionist.core.nats import connections
from projectionist.ops.inspect.project_status import PartStatus, Status, nothing_of, of_broker, of_connection
from projectionist.runner.consumers.status import Minutes, minutes
from projectionist.runner.jetstream import api
from projectionist.runner.jetstream.api import StreamInfo

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings

AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ProjectionistError)
"""What reading a database may end with that is no mistake of ours."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Where all stands at one moment."""

    at: datetime
    status: Status
    problem: str = ""
    """Why nothing newer could be had: all else is then as it was at that moment."""
    streams: dict[str, StreamInfo | str] = {}
    """What the broker holds; a text says why one cannot be seen."""
    minutes: dict[str, Minutes] = {}
    """The last hour, by consumer."""


class Onlooker:
    """Takes snapshots, and keeps the last one for when the database is away."""

    def __init__(
        self,
        settings: Settings,
        kept: KeptConnections,
        *,
        every_s: float = 1,
        broker_every_s: float = 5,
        rarely_s: float = 20,
        within_s: float = 5,
        now: Callable[[], float] = clock.now,
    ) -> None:
        self._settings, self._now = settings, now
        self._kept = kept
        self._every_s, self._broker_every_s, self._within_s = every_s, broker_every_s, within_s
        self._rarely_s, self._told = rarely_s, float("-inf")
        self._parts: list[PartStatus] = []
        self._minutes: dict[str, Minutes] = {}
        self._lock = asyncio.Lock()
        self._last: Snapshot | None = None
        self._taken = self._asked = float("-inf")
        self._broker = PartStatus("nats", "not asked yet")
        self._streams: dict[str, StreamInfo | str] = {}
        self._asking: asyncio.Task[None] | None = None

    async def look(self, every_s: float | None = None) -> Snapshot:
        """Return the newest snapshot: this second's, that of the last `every_s`, or a new one."""
        async with self._lock:
            if self._last is None or self._now() - self._taken >= (every_s or self._every_s):
                self._last = await self._new()
                self._taken = self._now()
            return self._last

    def forget(self) -> None:
        """Have the next look be a new one: something was just done, and whoever did it wants to see it."""
        self._taken = float("-inf")

    async def _new(self) -> Snapshot:
        try:
            async with asyncio.timeout(self._within_s), self._kept.lent() as lent:
                status = await self._read(lent)
        except AWAY as error:
            return self._without(str(error) or type(error).__name__)
        await self._ask_broker(sorted({one.stream for one in status.consumers}))
        return Snapshot(
            at=datetime.now(UTC),
            status=msgspec.structs.replace(status, parts=[*status.parts, self._broker]),
            streams=dict(self._streams),
            minutes=self._minutes,
        )

    async def _read(self, lent: KeptConnection) -> Status:
        """Ask where all stands; now and then what changes seldom too: the tables, who observes, the last hour."""
        rarely = self._now() - self._told >= self._rarely_s
        parts = [] if rarely else self._parts
        status = await of_connection(lent.connection, self._settings, parts=parts, outcomes=False)
        if rarely:
            schema = self._settings.postgres.schema
            self._minutes = await minutes(lent.connection, schema) if status.consumers else {}
            self._parts = status.parts
            if not any(part.problem for part in status.parts):
                self._told = lent.checked = self._now()
        return status

    def _without(self, problem: str) -> Snapshot:
        """Return what was seen last, and why it is not newer."""
        if self._last is not None:
            return msgspec.structs.replace(self._last, problem=problem)
        return Snapshot(at=datetime.now(UTC), status=nothing_of(problem), problem=problem)

    async def _ask_broker(self, streams: list[str]) -> None:
        """Have NATS asked now and then: at first before anything is shown, later beside it."""
        if self._asking is not None and not self._asking.done():
            return
        if self._now() - self._asked < self._broker_every_s:
            return
        first, self._asked = self._asking is None, self._now()
        self._asking = asyncio.create_task(self._look_at_broker(streams))
        if first:
            await asyncio.shield(self._asking)

    async def _look_at_broker(self, streams: list[str]) -> None:
        self._broker = await of_broker(self._settings.nats)
        self._streams = await stream_states(self._settings, streams) if not self._broker.problem else {}


async def stream_states(settings: Settings, names: list[str]) -> dict[str, StreamInfo | str]:
    """Return what the broker holds of these streams."""
    found: dict[str, StreamInfo | str] = {}
    try:
        client = await connections.connect(settings.nats, name="projectionist console", within_s=3)
    except ProjectionistError as error:
        return dict.fromkeys(names, str(error))
    try:
        for name in names:
            try:
                found[name] = await api.stream(client, name)
            except ProjectionistError as error:
                found[name] = str(error)
    finally:
        await client.close()
    return found
