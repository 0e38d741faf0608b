"""App: the projections, reactors, streams and providers of one deployment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, overload

from projectionist.core.errors import ProjectionistError
from projectionist.core.settings.settings import settings as found_settings
from projectionist.outbox.recording.recorded import Recorded
from projectionist.projections.compiled.definition import (
    ConsumerDefinition,
    Definition,
    Kind,
    check_distinct,
    consumer_definition,
)
from projectionist.projections.event import AnyEvent, type_of
from projectionist.projections.stream import Stream, check_streams
from projectionist.runner.wait.read_row import fetch_of, read_row
from projectionist.runner.wait.waiter import Waiter

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from projectionist.core.settings.settings import Settings
    from projectionist.outbox.recording.outbox_recorder import (
        AwaitedConnection,
        BlockingOutboxRecorder,
        OutboxRecorder,
    )
    from projectionist.outbox.recording.stream_recorder import StreamRecorder
    from projectionist.runner.process.running import Running
    from projectionist.runner.wait.outcome import WaitResult
    from projectionist.runner.wait.read_row import Fetch, P
    from projectionist.runner.wait.stored_events import PublishReceipt

ProviderFactory = Callable[..., Any]

log = logging.getLogger("projectionist.runner")


class AppError(ProjectionistError):
    """The app has no such consumer or stream, or was asked for what is not clear."""


class App:
    """What one deployment runs. Providers are factories: only the relay makes them, and loads their secrets."""

    def __init__(
        self,
        *,
        projections: Iterable[type] = (),
        streams: Iterable[Stream] = (),
        providers: Mapping[str, ProviderFactory] | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Take the parts; without `settings`, what needs some reads those that the processes read."""
        self.definitions: tuple[ConsumerDefinition, ...] = tuple(map(consumer_definition, projections))
        check_distinct(self.definitions)
        self.streams = check_streams(streams)
        self.providers = dict(providers or {})
        if self.streams:
            from projectionist.outbox.providers.recorded_events import with_streams

            self.providers = with_streams(self.providers, [one.name for one in self.streams if one.events])
        self._settings = settings
        self._waiters: dict[asyncio.AbstractEventLoop, Waiter] = {}
        """One for each event loop: connections, locks and tasks belong to theirs."""

    @property
    def views(self) -> tuple[Definition, ...]:
        """Return the views of all its consumers."""
        return tuple(view for one in self.definitions for view in one.views)

    def definition(self, name: str) -> ConsumerDefinition:
        """Return the consumer registered as `name`, or by its class's name."""
        for one in self.definitions:
            if name in {one.name, one.cls.__name__}:
                return one
        known = ", ".join(sorted(one.name for one in self.definitions)) or "none"
        of_set = [view for view in self.views if name in {view.name, view.cls.__name__, view.full_name}]
        if of_set:
            raise AppError(
                f"{name!r} is a view of the set {of_set[0].consumer!r}, which goes as a whole",
                remedy=f"Name {of_set[0].consumer}",
            )
        raise AppError(f"this app has no consumer {name!r}", remedy=f"It has: {known}")

    def view(self, name: str) -> Definition:
        """Return the view of this name: a consumer that is none but itself, or `OrderLines` or `Shop.OrderLines`."""
        for view in self.views:
            if name in {view.name, view.cls.__name__, view.full_name}:
                return view
        views = self.definition(name).views
        raise AppError(
            f"{name!r} is a set of views",
            remedy=f"Name one of them: {', '.join(view.full_name for view in views)}",
        )

    def chosen(self, names: Sequence[str]) -> tuple[ConsumerDefinition, ...]:
        """Return these consumers, or all when none is named."""
        return tuple(self.definition(name) for name in names) or self.definitions

    def chosen_views(self, names: Sequence[str]) -> tuple[Definition, ...]:
        """Return these views, all of a set that is named, or all when none is."""
        whole = [one for one in self.definitions if one.kind is Kind.SET]
        sets = {name: one.views for one in whole for name in (one.cls.__name__, one.name)}
        found = [view for name in names for view in sets.get(name) or (self.view(name),)]
        return tuple(dict.fromkeys(found)) or self.views

    def by_consumer(self, names: Sequence[str]) -> Mapping[ConsumerDefinition, tuple[Definition, ...] | None]:
        """Return the consumers that these names are about, each with those of its views that are named; None for all of
        them."""
        found: dict[ConsumerDefinition, tuple[Definition, ...] | None] = {}
        for name in names:
            whole = next((one for one in self.definitions if name in {one.name, one.cls.__name__}), None)
            if whole is not None:
                found[whole] = None
                continue
            view = self.view(name)
            owner = self.definition(view.consumer)
            if (before := found.get(owner, ())) is not None:
                found[owner] = tuple(dict.fromkeys((*before, view)))
        return found

    def stream_of(self, event: type[AnyEvent]) -> Stream:
        """Return the stream that events of this class are published to."""
        kind = type_of(event)
        for stream in self.streams:
            if any(type_of(one) == kind for one in stream.events):
                return stream
        known = ", ".join(one.name for one in self.streams) or "none"
        raise AppError(
            f"no stream of this app has events of type {kind!r}",
            remedy=f"Declare it: Stream(…, events=[{event.__name__}]). Streams of this app: {known}",
        )

    def warn_of_lacking_providers(self) -> None:
        """Log which consumers ask for providers that the app lacks: nothing else shows it before the first intent."""
        for one in self.definitions:
            if lacking := one.lacking(self.providers):
                log.warning(
                    "%s asks for %s, which this app lacks: its intents wait for a relay of an app that has "
                    "App(providers={…}) with it",
                    one.name,
                    ", ".join(lacking),
                )

    @asynccontextmanager
    async def running(
        self,
        *,
        consumers: Iterable[type | str] | None = None,
        relay: bool = True,
        migrate: bool = False,
    ) -> AsyncIterator[Running]:
        """Run consumers and relay beside a program's own work: `async with app.running() as running:`.

        All consumers unless some are named, and the relay where the app has providers. `migrate` brings the tables up
        to date first. No signal is listened to and no logging set up: the host has both. Leaving the block, or its
        cancellation, settles what has begun, for at most `shutdown_s`. What no waiting mends cancels the block and is
        raised at its end: settings that cannot work, and `CannotGoOn` for a consumer. `running.ready` and
        `running.why` are for readiness probes. A consumer that newer code has taken over ends alone.
        """
        from projectionist.runner.process.embedding import embedded

        settings, names = self._known_settings(), [one.name for one in self.definitions]
        settings.refuse_strangers(consumers=names, providers=self.providers)
        self.warn_of_lacking_providers()
        chosen = self.definitions if consumers is None else tuple(map(self._consumer, consumers))
        providers = self.providers if relay else {}
        async with embedded(chosen, providers, settings, consumers=names, migrate=migrate) as running:
            yield running

    @overload
    def outbox(  # type: ignore[overload-overlap] # each library's connection is of one kind
        self, connection: AwaitedConnection
    ) -> OutboxRecorder: ...
    @overload
    def outbox(self, connection: object) -> BlockingOutboxRecorder: ...
    def outbox(self, connection: object) -> OutboxRecorder | BlockingOutboxRecorder:
        """Record events in the transaction that is open on a connection of asyncpg, SQLAlchemy, psycopg or Django.

        `await app.outbox(connection).record("order/7", OrderPaid(), expected_version=3)`; without `await` where the
        connection blocks. The relay publishes them after the commit.
        """
        from projectionist.outbox.recording.outbox_recorder import outbox_recorder

        return outbox_recorder(connection, self.stream_of, self._known_settings().postgres.schema)

    def publisher(self) -> AbstractAsyncContextManager[StreamRecorder]:
        """Record events without a database: `async with app.publisher() as publisher: await publisher.record(…)`."""
        from projectionist.outbox.recording.stream_recorder import connected_recorder

        return connected_recorder(self._known_settings().nats, self.stream_of)

    async def wait_for(
        self,
        consumer: type | str,
        aggregate: str | Recorded | None = None,
        version: int | None = None,
        *,
        ack: PublishReceipt | None = None,
        timeout_s: float = 10,
    ) -> WaitResult:
        """Return when a consumer has applied what `record` returned, a version of an aggregate, or a publish.

        Returns at once where it is parked behind something that failed, and says why; after `timeout_s` with how far
        it is. It never raises for time: look at the answer's `outcome`. All who wait in an event loop share
        one connection and one question every 20 ms.
        """
        name = self._consumer(consumer).name
        waiter = self._shared_waiter()
        if isinstance(aggregate, Recorded) and version is None and ack is None:
            return await waiter.recorded(name, aggregate, timeout_s)
        if ack is not None and aggregate is None and version is None:
            return await waiter.sequence(name, ack, timeout_s)
        if ack is None and isinstance(aggregate, str) and version is not None:
            return await waiter.version(name, aggregate, version, timeout_s)
        raise AppError(
            "what to wait for is not clear",
            remedy="Give what `record` returned; or aggregate and version; or ack",
        )

    async def wait_for_all(
        self,
        consumers: Iterable[type | str],
        event: str | Recorded | PublishReceipt,
        *,
        timeout_s: float = 10,
    ) -> list[WaitResult]:
        """Return when each of these consumers has applied one event; an answer for each, in their order.

        `event` is a token that its producer passed on, what `record` returned, or the answer of a publish. All of them
        read the stream that holds it, else CannotWait is raised, as for a stream that was made anew since. Each answer
        is `wait_for`'s: the consumer has applied at least this event, all at some moment and not at one.
        """
        names = [self._consumer(one).name for one in consumers]
        if not names:
            raise AppError("no consumer is named to wait for", remedy="Name those that are to be read then")
        return await self._shared_waiter().cut(names, event, timeout_s)

    async def read(
        self, cls: type[P], key: object, *, connection: AwaitedConnection | None = None
    ) -> P | None:
        """Return the row of this key as handlers see it; None where there is none. Nothing that is done to it is kept.

        What a `connection` of the caller's sees and may read counts: of asyncpg, also a pool, of SQLAlchemy or psycopg.
        Without, all who read and wait in an event loop share one.
        """
        fetch: Fetch = self._shared_waiter().row if connection is None else fetch_of(connection)
        return await read_row(cls, key, fetch)

    def _shared_waiter(self) -> Waiter:
        loop = asyncio.get_running_loop()
        if (waiter := self._waiters.get(loop)) is None:
            waiter = Waiter(self.definitions, self._known_settings())
            # Another thread may have a loop of its own, and do this at the same time: the dict is never changed.
            there = {one: of for one, of in self._waiters.items() if not one.is_closed()}
            self._waiters = {**there, loop: waiter}
        return waiter

    def _consumer(self, consumer: type | str) -> ConsumerDefinition:
        return self.definition(consumer if isinstance(consumer, str) else consumer.__name__)

    def _known_settings(self) -> Settings:
        if self._settings is None:
            self._settings = found_settings()
        return self._settings
