"""Serves all waiters of a process by one connection and one statement every 20 ms; none while there are no waiters.

No NOTIFY: inside batches it would cost them dearly, outside it may be lost, so that polling is needed all the same.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from projectionist.core.aggregates import AggregateError, parted
from projectionist.core.postgres import connections as db
from projectionist.core.postgres.error_class import is_transient
from projectionist.core.postgres.statements import Statements
from projectionist.core.stream_token import StreamToken
from projectionist.outbox.recording.recorded import Recorded
from projectionist.outbox.relay.notify import channel
from projectionist.runner.database.dead_sessions import SILENT_BEATS
from projectionist.runner.jetstream import api
from projectionist.runner.wait.outcome import AwaitedEvent, WaitOutcome, WaitResult, answer, describe_progress
from projectionist.runner.wait.stored_events import (
    CannotWait,
    PublishReceipt,
    SharedMessage,
    StoredEvents,
    awaited,
    place_of,
    refuse_strangers,
    together,
)

if TYPE_CHECKING:
    import asyncpg
    from asyncpg import Record

    from projectionist.core.settings.settings import Settings
    from projectionist.projections.compiled.definition import ConsumerDefinition

    _Find = Callable[[], Awaitable[AwaitedEvent | WaitResult | None]]

POLL_S = 0.02
AGAIN_S = 0.25
"""How often it is looked whether the consumer reads the stream as it is now, and whether a process runs it."""
NOBODY_S = 2.0
"""How long a consumer may be without a process before it counts: one may just be starting in place of another."""
LINGER_S = 1.0
"""How long the connections are kept after the last waiter."""
_FIELDS = ("consumer", "aggregate", "version", "source", "id", "incarnation", "seq", "hash", "canonical")


class UnservedConsumer(msgspec.Struct, frozen=True):
    """Nobody applies events for a consumer."""

    reason: str
    decided: bool
    """Whether it is paused or its breaker is open; else no process runs it, which passes while processes change."""
    since: float


class Waiter:
    """Waits for the consumers of one app."""

    def __init__(
        self,
        definitions: Iterable[ConsumerDefinition],
        settings: Settings,
        *,
        nobody_s: float = NOBODY_S,
        linger_s: float = LINGER_S,
    ) -> None:
        self._nobody_s, self._linger_s = nobody_s, linger_s
        self._definitions = {one.name: one for one in definitions}
        self._settings = settings
        schema = settings.postgres.schema
        self._sql = Statements("projectionist.runner", schema)
        self._wake = Statements("projectionist.outbox", schema)["notify_relays"]
        self._numbers = count(1)
        self._waiting: dict[int, tuple[AwaitedEvent, asyncio.Future[WaitResult]]] = {}
        self._known: dict[str, int] = {}
        self._unserved: dict[int, UnservedConsumer] = {}
        """The consumers waited for without a process that applies events; looked at every AGAIN_S."""
        self._looked: dict[int, float] = {}
        """When each of them was looked at."""
        self._callers = 0
        self._connection: asyncpg.Connection[Record] | None = None
        self._stored = StoredEvents(settings.nats)
        self._asking = asyncio.Lock()
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def version(self, name: str, aggregate: str, version: int, timeout_s: float) -> WaitResult:
        """Wait until consumer `name` has applied this version of an aggregate (`type/id`)."""
        definition = self._definitions[name]
        if definition.sequence == "unordered":
            raise CannotWait(
                f"{name} has no order, so it knows no versions",
                remedy="Wait for the answer of the publish, or for source and id",
            )
        try:
            parted(aggregate)
        except AggregateError as error:
            raise CannotWait(error.message, remedy=error.remedy) from None
        if version < 1:
            raise CannotWait(f"{version} is no version of an aggregate", remedy="Versions count from 1")

        async def find() -> AwaitedEvent:
            return AwaitedEvent(consumer=await self._number(name), aggregate=aggregate, version=version)

        return await self._within(timeout_s, find)

    async def identity(self, name: str, source: str, identity: str, timeout_s: float) -> WaitResult:
        """Wait until consumer `name` has applied the event of this source and id."""

        async def find() -> AwaitedEvent:
            return AwaitedEvent(consumer=await self._number(name), source=source, id=identity)

        return await self._within(timeout_s, find)

    async def recorded(self, name: str, recorded: Recorded, timeout_s: float) -> WaitResult:
        """Wait until consumer `name` has applied the last event that a call of `record` has returned."""
        definition, sequence = self._definitions[name], recorded.sequence
        if (elsewhere := _elsewhere(definition, recorded.stream)) is not None:
            return elsewhere
        if sequence is not None:
            message = self._stored.message(StreamToken(recorded.stream, "", sequence))
            return await self._within(timeout_s, lambda: self._read(definition, message))
        ordered = definition.sequence != "unordered"

        async def find() -> AwaitedEvent:
            number = await self._number(name)
            # Who waits has committed: a relay need not find it by polling.
            await self._fetch(self._wake, channel(self._settings.postgres.schema))
            return AwaitedEvent(
                consumer=number,
                aggregate=recorded.aggregate if ordered else None,
                version=recorded.version if ordered else None,
                source=recorded.source,
                id=recorded.id,
                hashes=recorded.hashes,
            )

        return await self._within(timeout_s, find)

    async def sequence(self, name: str, ack: PublishReceipt, timeout_s: float) -> WaitResult:
        """Wait until consumer `name` has applied what a publish has stored."""
        definition = self._definitions[name]
        if (elsewhere := _elsewhere(definition, ack.stream)) is not None:
            return elsewhere
        message = self._stored.message(StreamToken(ack.stream, "", ack.sequence))
        return await self._within(timeout_s, lambda: self._read(definition, message))

    async def cut(
        self, names: Sequence[str], event: str | Recorded | PublishReceipt, timeout_s: float
    ) -> list[WaitResult]:
        """Wait until each of these consumers has applied one event; its message is read once for all of them."""
        place = place_of(event)
        definitions = [self._definitions[name] for name in names]
        refuse_strangers(definitions, place.stream)
        if isinstance(place, Recorded):
            return await together(self.recorded(name, place, timeout_s) for name in names)
        message = self._stored.message(place)
        return await together(
            self._within(timeout_s, partial(self._read, one, message)) for one in definitions
        )

    async def row(self, statement: str, *arguments: object) -> Record | None:
        """Return the first row of a statement, on the connection that all who wait share."""
        self._callers += 1
        self._look_about()
        try:
            rows = await self._fetch(statement, *arguments)
        finally:
            self._callers -= 1
        return rows[0] if rows else None

    async def _within(self, timeout_s: float, find: _Find) -> WaitResult:
        self._callers += 1
        self._look_about()
        try:
            return await self._answered(timeout_s, find)
        finally:
            self._callers -= 1

    async def _answered(self, timeout_s: float, find: _Find) -> WaitResult:
        problem, found = f"no answer within {timeout_s:g} s", None
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while found is None:
                    try:
                        found = await find()
                    except Exception as error:
                        if not (is_transient(error) or isinstance(error, api.BrokerError)):
                            raise
                        problem = str(error)
                        await asyncio.sleep(POLL_S)
                    else:
                        if found is None:
                            problem = "the consumer has not taken up the stream as it is now"
                            await asyncio.sleep(AGAIN_S)
                if isinstance(found, WaitResult):
                    return found
                return await self._wait(found)
        if not isinstance(found, AwaitedEvent):
            return WaitResult(WaitOutcome.PENDING, f"it could not be looked at: {problem}")
        return WaitResult(WaitOutcome.PENDING, await self._stands(found))

    async def _wait(self, wanted: AwaitedEvent) -> WaitResult:
        number = next(self._numbers)
        future: asyncio.Future[WaitResult] = asyncio.get_running_loop().create_future()
        self._waiting[number] = wanted, future
        self._look_about()
        try:
            return await future
        finally:
            del self._waiting[number]

    def _look_about(self) -> None:
        """Start the task that looks, and that closes what is open after the last call."""
        self._arrived.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        """Look while there are waiters, and a little longer."""
        try:
            while await self._has_waiters():
                began = time.monotonic()
                await self._answer(dict(self._waiting))
                await asyncio.sleep(max(POLL_S, time.monotonic() - began))
        finally:
            self._task = None
            await self._close()

    async def _has_waiters(self) -> bool:
        """Return whether there are waiters; False after a while without a call and with no caller about to wait."""
        while not self._waiting:
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), self._linger_s)
            except TimeoutError:
                if not self._callers:
                    return False
        return True

    async def _answer(self, waiting: dict[int, tuple[AwaitedEvent, asyncio.Future[WaitResult]]]) -> None:
        try:
            await self._look_who_serves({wanted.consumer for wanted, _ in waiting.values()})
            unserved, now = dict(self._unserved), time.monotonic()
            rows = await self._look({number: wanted for number, (wanted, _) in waiting.items()})
        except Exception as error:  # noqa: BLE001  the waiters hear of it
            if not is_transient(error):
                for _, future in waiting.values():
                    _unless_done(future, error)
            return
        for row in rows:
            if (found := answer(row)) is not None:
                _unless_done(waiting[row["n"]][1], found)
        for wanted, future in waiting.values():
            one = unserved.get(wanted.consumer)  # what is there all the same was answered above
            if one is not None and (one.decided or now - one.since >= self._nobody_s):
                _unless_done(future, WaitResult(WaitOutcome.NOT_SERVED, one.reason))

    async def _look_who_serves(self, consumers: Iterable[int]) -> None:
        """See now and then whether a process applies events for these."""
        now = time.monotonic()
        asked = [one for one in consumers if now - self._looked.get(one, -math.inf) >= AGAIN_S]
        if not asked:
            return
        rows = await self._ask(
            "select_unserved_consumers", asked, SILENT_BEATS * self._settings.run.heartbeat_s
        )
        before = {
            one: known.since
            for one in asked
            if (known := self._unserved.pop(one, None)) is not None
            and now - self._looked[one] < self._nobody_s
        }
        self._looked.update(dict.fromkeys(asked, now))
        for row in rows:
            since = before.get(row["number"], now)
            self._unserved[row["number"]] = UnservedConsumer(row["reason"], row["decided"], since)

    async def _look(self, wanted: dict[int, AwaitedEvent], *, all_of_them: bool = False) -> list[Record]:
        columns = [[getattr(one, field) for one in wanted.values()] for field in _FIELDS]
        return await self._ask("select_wait_outcomes", list(wanted), *columns, all_of_them)

    async def _stands(self, wanted: AwaitedEvent) -> str:
        try:
            rows = await self._look({0: wanted}, all_of_them=True)
        except Exception as error:
            if not is_transient(error):
                raise
            return f"PostgreSQL cannot be asked: {error}"
        return describe_progress(rows[0] if rows else None)

    async def _ask(self, statement: str, *arguments: object) -> list[Record]:
        return await self._fetch(self._sql[statement], *arguments)

    async def _fetch(self, text: str, *arguments: object) -> list[Record]:
        """Return on the one connection, which is opened where there is none, and given up where it fails."""
        async with self._asking:
            try:
                if self._connection is None or self._connection.is_closed():
                    self._connection = await db.connect(
                        self._settings.postgres,
                        application_name="projectionist wait",
                        deadline=True,
                        pooled=True,
                    )
                return await self._connection.fetch(text, *arguments)
            except BaseException:
                # Also where the caller was cancelled: an answer that still comes must not be read as another's.
                if self._connection is not None:
                    self._connection.terminate()
                    self._connection = None
                raise

    async def _number(self, name: str) -> int:
        if name not in self._known:
            self._known[name] = (await self._consumer(name))["number"]
        return self._known[name]

    async def _consumer(self, name: str) -> Record:
        rows = await self._ask("select_consumer_stream", name)
        if not rows:
            raise CannotWait(
                f"consumer {name!r} is not in the database yet", remedy="Run `projectionist migrate`"
            )
        return rows[0]

    async def _read(
        self, definition: ConsumerDefinition, message: SharedMessage
    ) -> AwaitedEvent | WaitResult | None:
        """Return which event the message is, read as the consumer reads it. None while the consumer stands in a stream
        that is gone, of which the same sequences told other things."""
        seen = await message.read()
        row = await self._consumer(definition.name)
        if row["created"] not in (None, seen.created):
            message.forget()
            return None
        return awaited(definition, self._settings.policy(definition.name), row, seen)

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
        await self._stored.close()


def _elsewhere(definition: ConsumerDefinition, stream: str) -> WaitResult | None:
    """Return what is told of an event of a stream that the consumer does not read."""
    if stream == definition.stream:
        return None
    return WaitResult(
        WaitOutcome.NOT_MEANT, f"it is in stream {stream}, {definition.name} reads {definition.stream}"
    )


def _unless_done(future: asyncio.Future[WaitResult], found: WaitResult | Exception) -> None:
    if future.done():
        return
    if isinstance(found, Exception):
        future.set_exception(found)
    else:
        future.set_result(found)
