"""A SqlProjection inside the batch transaction: its handlers run one after the other, all of them in one savepoint.

Where one fails, what was tried with it is undone and tried in parts; an event that is left alone has a savepoint of its
own, and what happens to it there is what happens to it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import asyncpg
import msgspec

from projectionist.core.postgres.error_class import is_transient
from projectionist.core.postgres.pooled_session import is_lent
from projectionist.core.postgres.rights import Duty, refusal
from projectionist.core.postgres.search_path import default_names, default_search_path, own_names
from projectionist.core.postgres.statements import Statements
from projectionist.core.telemetry import instruments, metrics, names
from projectionist.core.user_errors import RAISED, is_cancelled
from projectionist.projections.copying import copied
from projectionist.projections.event_batch import Events, asked_of
from projectionist.projections.folding.failure import FailureKind, failure_of
from projectionist.projections.reactor_answers import answer_of
from projectionist.projections.tables.ddl import sql_names
from projectionist.runner.batch.handler_transaction import (
    STAY,
    CallAgain,
    HandlerHabits,
    HandlerTransaction,
    Unused,
)
from projectionist.runner.batch.handlers import FoldedBatch, failed, later, ordered, preset, step_of
from projectionist.runner.batch.outcomes import FailedAt
from projectionist.runner.batch.sql_segments import Segment, Segments, SqlEvent, runs, waves
from projectionist.runner.batch.times import USUAL

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.outbox.intents.schedule import Emitted
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.planning import AggregatePlan
    from projectionist.runner.batch.retry_policy import Refusal
    from projectionist.runner.batch.writes import EventFailure
    from projectionist.runner.decoding.delivery import Delivery

log = logging.getLogger("projectionist.runner")

_BY_DATABASE = (asyncpg.PostgresError, asyncpg.InterfaceError)


class _HasSet(Exception):
    """Some handler of a batch has changed settings of the session."""


class SqlHandlers:
    """Runs the handlers of a SqlProjection."""

    def __init__(
        self,
        connection: Connection,
        consumer: Consumer,
        schema: str,
        idle_s: float = USUAL.handler_idle_s,
    ) -> None:
        self._connection, self._idle_s = connection, idle_s
        self._consumer = consumer
        self._schema = schema
        self._sql = Statements("projectionist.runner", schema)
        self._path: str | None = None
        self._before: list[str] | None = None
        """Settings that handlers met when the last batch ended."""
        self._generation = 0
        self._at: str | None = None
        self._unused: dict[int, str] = {}
        """Why a handler was given up, by the index of its step: it is not waited for twice in one batch."""
        self._habits = HandlerHabits()
        self._definition = consumer.view.definition
        self._handlers = self._definition.cls()
        self._classes: dict[str, list[type]] = {}
        """Of the events that a handler declares."""
        for handler in self._definition.handlers.values():
            self._classes.setdefault(handler.name, []).append(handler.event)
        self._follow()

    def _follow(self) -> None:
        """Go on with the generation that is live in this batch: a swap may have come between it and the last."""
        if self._generation != self._consumer.view.generation:
            self._generation = self._consumer.view.generation
            tables = self._definition.tables
            placed = sql_names(tables, self._schema, self._generation)
            self._tx = HandlerTransaction(self._connection, placed, self._idle_s, self._habits)

    @property
    def usual(self) -> Sequence[str]:
        """Return none: the statements are the user's."""
        return ()

    @property
    def at(self) -> str | None:
        """Return whose handler runs, or ran last: of a statement that was put off nobody knows whose it is."""
        return None if self._tx.failed is not None else self._at

    async def _see_ties(self) -> None:
        """Ask which tables another one's writes cannot reach; of a single one nothing depends on that."""
        tables = self._definition.owned
        if len(tables) > 1:
            known = {table.physical(self._generation): table.name for table in tables}
            tied = await self._connection.fetch(self._sql["select_tied_tables"], list(known))
            self._tx.untied = frozenset(known.values()) - {known[row["name"]] for row in tied}

    async def fold(self, courses: Sequence[AggregatePlan], refusal: Refusal | None) -> FoldedBatch:
        """Run every handler; a failed one leaves nothing behind and stops its aggregate.

        What handlers have set is looked at once, at the end. If it is not as before, all is undone, and each is looked
        at: so the event that did it is the one that fails.
        """
        self._follow()
        await self._see_ties()
        self._path = self._path or await default_search_path(self._connection)
        try:
            async with self._connection.transaction(), default_names(self._connection, self._path):
                if self._before is None or is_lent(self._connection):
                    self._before = await self._seen()
                folded = await self._folded(courses, refusal)
                if await self._seen() != self._before:
                    raise _HasSet
                return folded
        except _HasSet:
            async with default_names(self._connection, self._path):
                self._before = await self._seen()
                return await self._folded(courses, refusal, each=True)

    async def _seen(self) -> list[str]:
        """Return the settings as a handler meets them now."""
        found: list[str] = await self._connection.fetchval(self._sql["select_write_settings"])
        return found

    async def _folded(
        self, courses: Sequence[AggregatePlan], refusal: Refusal | None, *, each: bool = False
    ) -> FoldedBatch:
        self._at = None
        self._unused.clear()
        broken = preset(courses, self._consumer.policy.retry, refusal)
        segments = Segments(self._events(courses, broken), self._habits.apart, singly=each)
        intents: list[tuple[Delivery, Emitted]] = []
        while segment := segments.following():
            if len(segment) > 1:
                blamed = await self._together(segment, intents)
                if blamed is not None:
                    segments.split(segment, blamed)
                continue
            (one,) = segment
            failure = await self._alone(one, intents, each=each)
            if failure is not None:
                segments.stop(one.course)
                broken[one.course] = FailedAt(courses[one.course].tried.index(one.delivery), failure)
        self._at = None
        return FoldedBatch(broken, [(d, one, self._consumer.view) for d, one in intents], [], {})

    def _events(self, courses: Sequence[AggregatePlan], broken: dict[int, FailedAt]) -> Segment:
        return [
            SqlEvent(course, delivery, step)
            for index, (course, delivery) in enumerate(ordered(courses, broken))
            if (step := step_of(self._definition, index, delivery)) is not None
        ]

    async def write(self, folded: FoldedBatch) -> None:
        """Write nothing: the handlers have."""

    async def _together(self, segment: Segment, intents: list[tuple[Delivery, Emitted]]) -> range | None:
        """Run the handlers of several events in one savepoint; return the places of those to blame where one failed,
        and nothing of them is left."""
        emitted: list[tuple[Delivery, Emitted]] = []
        blamed = range(len(segment))
        self._tx.begin()
        try:
            async with self._connection.transaction():
                for place, run in runs(segment):
                    blamed, handler = range(place, place + len(run)), run[0].step.handler
                    self._tx.enter(handler.name, place, apart=False, defers=not handler.batch)
                    emitted += await self._called(run)
                blamed, self._at = range(len(segment)), None
                await self._tx.flush()
                # After a failed statement this fails too, even if a handler has swallowed the error.
                await self._connection.execute("select")
        except _BY_DATABASE as error:
            if self._is_outage(error):
                raise
            if self._tx.failed is None and self._waves_may_help([segment[place] for place in blamed], error):
                return range(0)
        except Unused as error:
            step = segment[blamed.start].step
            if self._tx.has_deferred:  # for PostgreSQL it was silent, which may not be its own doing
                self._habits.at_once.add(step.handler.name)
            else:
                self._unused[step.index] = str(error)
        except RAISED as error:
            if is_cancelled(error):
                raise
        else:
            intents += emitted
            return None
        return self._tx.failed or blamed

    async def _alone(
        self, one: SqlEvent, intents: list[tuple[Delivery, Emitted]], *, each: bool
    ) -> EventFailure | None:
        """Run the handler of one event in a savepoint of its own."""
        step, delivery, retry = one.step, one.delivery, self._consumer.policy.retry
        if (why := self._unused.get(step.index)) is not None:
            return later(delivery, retry, why)
        self._tx.begin()
        self._tx.enter(step.handler.name, 0, apart=True, defers=False)
        try:
            async with self._connection.transaction():
                emitted = await self._called([one])
                await self._connection.execute("select")
                if each and await self._seen() != self._before:
                    raise ValueError(f"a handler has changed settings of the session, which {STAY}")
        except _BY_DATABASE as error:
            if self._is_outage(error):
                raise
            if isinstance(error, asyncpg.InsufficientPrivilegeError):
                await self._refuse_without_rights(error)
            return failed(
                msgspec.structs.replace(failure_of(step, error), kind=FailureKind.RETRY), delivery, retry
            )
        except Unused as error:
            return later(delivery, retry, str(error))
        except RAISED as error:  # a handler is a user's code: what it raises is its event's failure
            if is_cancelled(error):
                raise
            return failed(failure_of(step, error), delivery, retry)
        intents += emitted
        return None

    async def _called(self, run: Segment) -> list[tuple[Delivery, Emitted]]:
        """Call the handler of these events; return what it has emitted."""
        await self._tx.speak()
        handler = run[0].step.handler
        if not handler.batch:
            return await self._called_for(run[0])
        found: list[tuple[int, list[tuple[Delivery, Emitted]]]] = []
        for wave in waves(run) if handler.name in self._habits.in_waves else [run]:
            found += await self._called_for_all(wave)
        found.sort(key=itemgetter(0))
        return [emitted for _, several in found for emitted in several]

    async def _called_for(self, one: SqlEvent) -> list[tuple[Delivery, Emitted]]:
        step, delivery = one.step, one.delivery
        self._at = delivery.aggregate or delivery.id
        handler = step.handler
        args = (self._handlers, self._tx, copied(step.event) if handler.copies else step.event)
        with self._tx.waiting():
            result = await (handler.call(*args, step.envelope()) if handler.envelope else handler.call(*args))
        return self._emitted(one, result)

    async def _called_for_all(self, wave: Segment) -> list[tuple[int, list[tuple[Delivery, Emitted]]]]:
        """Call a handler for several events; return what it has emitted for each, with its place in the batch."""
        self._at = wave[0].delivery.aggregate or wave[0].delivery.id if len(wave) == 1 else None
        steps = [one.step for one in wave]
        handler = steps[0].handler
        events: Events[Any] = Events(
            [copied(step.event) if step.handler.copies else step.event for step in steps],
            [step.envelope for step in steps],
            [step.aggregate_id for step in steps],
            self._classes[handler.name],
        )
        with self._tx.waiting():
            result = await handler.call(self._handlers, self._tx, events)
        asked = asked_of(result, events)
        return [(one.step.index, self._emitted(one, asked.get(place))) for place, one in enumerate(wave)]

    def _emitted(self, one: SqlEvent, result: object) -> list[tuple[Delivery, Emitted]]:
        if self._tx.is_void:
            raise CallAgain
        answer = answer_of(result, one.step.envelope, ordered=one.step.handler.ordered)
        if answer.delete:
            raise TypeError("a SqlProjection has no row to delete: delete it by SQL")
        return [(one.delivery, emitted) for emitted in answer.intents]

    def _waves_may_help(self, run: Segment, error: Exception) -> bool:
        """Return whether to try a run once more, with the events of an aggregate in calls of their own."""
        handler = run[0].step.handler
        twice = isinstance(error, asyncpg.CardinalityViolationError) and len(waves(run)) > 1
        if not (twice and handler.batch) or handler.name in self._habits.in_waves:
            return False
        self._habits.in_waves.add(handler.name)
        name = self._consumer.definition.name
        metrics.add(instruments.RETRIES, 1, {names.CONSUMER: name, names.REASON: "waves"})
        log.warning(
            "%s.%s: its statement would change a row twice where two events are about it, so events of one aggregate"
            " are passed to it in calls of their own, which are slower: `group by` the key, or `distinct on` it",
            name,
            handler.name,
        )
        return True

    async def _refuse_without_rights(self, error: asyncpg.InsufficientPrivilegeError) -> None:
        """Raise RightMissing where it is our table that this role may not use: that is about no event."""
        assert self._path is not None, "handlers run with it"
        async with own_names(self._connection, self._path):
            told = await refusal(self._connection, self._schema, error, Duty.RUNNER)
        if told is not None:
            raise told from error

    def _is_outage(self, error: Exception) -> bool:
        """Return whether the connection is gone: the driver's other complaints are about how a handler used it."""
        return self._connection.is_closed() or (
            isinstance(error, asyncpg.PostgresError) and is_transient(error)
        )
