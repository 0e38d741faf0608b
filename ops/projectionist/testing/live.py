"""Live: an app at work on real servers, in a database and on streams of one test alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio.to_thread import run_sync
from msgspec.structs import replace
from nats.js.errors import NotFoundError

from projectionist.core.nats import connections as broker
from projectionist.core.postgres import connections as db
from projectionist.core.postgres.statements import Statements
from projectionist.core.settings.secret import Url
from projectionist.core.settings.settings import Nats, Postgres, Settings
from projectionist.core.settings.settings import settings as found_settings
from projectionist.outbox.admin.status import look
from projectionist.outbox.intents.intent import Intent, options_of
from projectionist.outbox.providers.base import Request
from projectionist.outbox.publishing.publisher import Published, Publisher
from projectionist.outbox.relay.notify import channel
from projectionist.projections.consumer_classes import Projection
from projectionist.projections.event import AnyEvent
from projectionist.runner.app import App
from projectionist.runner.jetstream import api
from projectionist.runner.wait.outcome import WaitOutcome
from projectionist.testing.event_drafts import SOURCE, EventPlace, OldEvent, drafted
from projectionist.testing.intents import intent_of, recorder
from projectionist.testing.subjects import places_of, subjects_of

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.runner.process.running import Running
    from projectionist.testing.servers import SessionServers

__all__ = ["Live"]

Answer = TypeVar("Answer")
P = TypeVar("P", bound=Projection)

LOOK_S = 0.01
_SQL = Statements("projectionist.outbox", "projectionist")
WITHIN_S = 60.0
"""How long something may take that has to happen: it bounds a hang."""
FINE = frozenset(
    {WaitOutcome.APPLIED, WaitOutcome.IGNORED, WaitOutcome.STALE, WaitOutcome.SKIPPED, WaitOutcome.DISCARDED}
    | {WaitOutcome.NOT_MEANT, WaitOutcome.FORGOTTEN}
)
"""How an event may end without anything being wrong."""


class Live:
    """An app at work, for one test. Its methods may be awaited in any event loop; another thread does the work."""

    def __init__(self, servers: SessionServers, app: App, settings: Settings) -> None:
        self.settings = settings
        """Those that the app runs with, for whatever else the test makes of it."""
        self.requests: list[Request] = []
        """What providers were asked to do, attempt by attempt: every provider of the app is one that records."""
        names = {*app.providers, *(options_of(one).provider for d in app.definitions for one in d.intents)}
        names -= {one.name for one in app.streams}  # recorded events are published
        self.app = App(
            projections=[one.cls for one in app.definitions],
            streams=app.streams,
            providers={name: recorder(self.requests) for name in names},
            settings=settings,
        )
        self._portal = servers.portal
        self._stack = AsyncExitStack()
        self._versions: dict[str, int] = {}
        self._settled: dict[str, int] = {}

    async def publish(
        self, aggregate: str, *events: AnyEvent | OldEvent, time: datetime | None = None
    ) -> list[Published]:
        """Publish events of one aggregate (`type/id`), in consecutive versions; return where they are.

        Each goes to the stream that the app declares for it, else to those of the consumers that handle it.
        """
        return await self._call(partial(self._publish, aggregate, events, time))

    async def settled(self, *consumers: type | str, within_s: float = WITHIN_S) -> None:
        """Return when all consumers, or those that are named, have applied all that was published or recorded.

        AssertionError for what they have not: an event that failed, that cannot be read, or that has no end in time.
        """
        await self._call(partial(self._settle, consumers, within_s))

    async def row(self, cls: type[P], key: object) -> P | None:
        """Return the row of this key as handlers see it; None where there is none. Await `settled` before."""
        return await self._call(partial(self.app.read, cls, key))

    async def intents(self, within_s: float = WITHIN_S) -> list[Intent]:
        """Return the intents that providers have had, in their order, when none is on its way any more."""
        await self._call(partial(self._relayed, within_s))
        return [intent_of(one, self.app.definitions) for one in self.requests]

    async def _call(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        async def done() -> Answer:
            return await work()

        return await run_sync(self._portal.call, done)

    # -- in the event loop of the servers ------------------------------------------------------------------------

    async def begin(self) -> None:
        """Make the streams and the tables, and run everything."""
        async with AsyncExitStack() as stack:
            self._client = await broker.connect(self.settings.nats, name="projectionist tests")
            stack.push_async_callback(self._client.close)
            for name, subjects in subjects_of(self.app.definitions, self.app.streams).items():
                await _make_stream(self._client, name, subjects)
                stack.push_async_callback(self._client.jetstream().delete_stream, name)
            publisher = Publisher(self._client, source=SOURCE, subject=SOURCE)
            self._publisher = await stack.enter_async_context(publisher)
            self._running: Running = await stack.enter_async_context(self.app.running(migrate=True))
            await _until(self._begun, WITHIN_S)
            self._stack = stack.pop_all()

    async def end(self) -> None:
        """Stop what runs, and remove the streams; raises what has ended a consumer meanwhile."""
        await self._stack.aclose()

    async def _publish(
        self, aggregate: str, events: tuple[AnyEvent | OldEvent, ...], time: datetime | None
    ) -> list[Published]:
        published = []
        for event in events:
            version = self._versions[aggregate] = self._versions.get(aggregate, 0) + 1
            for subject, source in places_of(event, aggregate, self.app):
                at = EventPlace(
                    aggregate=aggregate, version=version, source=source, time=time or datetime.now(UTC)
                )
                published.append(await self._publisher.send(drafted(event, at, subject)))
        return published

    async def _settle(self, consumers: tuple[type | str, ...], within_s: float) -> None:
        if self.app.streams:
            await self._relayed(within_s, events_only=True)
        names = [one if isinstance(one, str) else one.__name__ for one in consumers]
        chosen = self.app.chosen(names)
        ends = {name: await self._last(name) for name in {one.stream for one in chosen}}
        wrong: list[str] = []

        async def wait(name: str, stream: str, seq: int) -> None:
            found = await self.app.wait_for(
                name, ack=Published(stream, seq, duplicate=False), timeout_s=within_s
            )
            if found.outcome not in FINE:
                wrong.append(f"{name}, event {seq} of {stream}: {found}")

        async with anyio.create_task_group() as tasks:
            for one in chosen:
                for seq in range(self._settled.get(one.name, 0) + 1, ends[one.stream] + 1):
                    tasks.start_soon(wait, one.name, one.stream, seq)
        if self._running.ended:
            wrong += self._running.why
        if wrong:
            raise AssertionError("not settled:\n" + "\n".join(sorted(wrong)))
        self._settled |= {one.name: ends[one.stream] for one in chosen}

    async def _last(self, stream: str) -> int:
        return (await api.stream(self._client, stream)).state.last_seq

    async def _begun(self) -> str:
        return "" if self._running.ended else "; ".join(self._running.why)

    async def _relayed(self, within_s: float, *, events_only: bool = False) -> None:
        """Return when the relay, which is woken, has sent all that waits; `events_only`: to declared streams."""
        schema = self.settings.postgres.schema
        streams = {one.name for one in self.app.streams}
        connection = await db.connect(self.settings.postgres, application_name="projectionist tests")

        async def on_their_way() -> str:
            found = await look(connection, schema)
            waiting = [
                one for one in found.providers if one.waiting and (not events_only or one.name in streams)
            ]
            return (
                f"intents are on their way: {found}" if waiting or (found.staged and not events_only) else ""
            )

        try:
            await connection.execute(_SQL["notify_relays"], channel(schema))
            await _until(on_their_way, within_s)
        finally:
            await connection.close()


@contextmanager
def live(servers: SessionServers, app: App) -> Iterator[Live]:
    """Run an app on a database and streams of its own, for the length of the block."""
    url = servers.make_database()
    try:
        made = Live(servers, app, _settings(url, servers.nats_url))
        servers.portal.call(made.begin)
        try:
            yield made
        finally:
            servers.portal.call(made.end)
    finally:
        servers.drop_database(url)


def _settings(postgres_url: str, nats_url: str) -> Settings:
    """Return the user's settings, on these servers: nothing of the user's own is connected to."""
    found = found_settings()
    return replace(
        found,
        postgres=Postgres(url=Url(postgres_url)),
        nats=Nats(url=(Url(nats_url),)),
        telemetry=replace(found.telemetry, allow_unmonitored=True),
        providers={},
    )


async def _until(reason: Callable[[], Awaitable[str]], within_s: float) -> None:
    """Return when there is no reason to wait any longer; AssertionError with the last one when time is over."""
    deadline = anyio.current_time() + within_s
    while why := await reason():
        if anyio.current_time() > deadline:
            raise AssertionError(f"after {within_s:g} s: {why}")
        await anyio.sleep(LOOK_S)


async def _make_stream(client: Client, name: str, subjects: list[str]) -> None:
    with suppress(NotFoundError):  # of a test that was killed
        await client.jetstream().delete_stream(name)
    await client.jetstream().add_stream(name=name, subjects=subjects)
