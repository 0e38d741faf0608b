"""A SqlProjection inside the batch transaction: its handlers run one by one, each in a savepoint of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import asyncpg
import msgspec

from projectionist.core.postgres.error_class import is_transient
from projectionist.core.postgres.rights import Duty, refusal
from projectionist.core.postgres.search_path import default_names, default_search_path, own_names
from projectionist.core.postgres.statements import Statements
from projectionist.core.user_errors import RAISED, is_cancelled
from projectionist.projections.copying import copied
from projectionist.projections.folding.failure import FailureKind, failure_of
from projectionist.projections.folding.step import Step
from projectionist.projections.reactor_answers import answer_of
from projectionist.projections.tables.ddl import sql_names
from projectionist.projections.tables.sql_tables import resolved
from projectionist.runner.batch.handlers import FoldedBatch, failed, later, ordered, preset, step_of
from projectionist.runner.batch.outcomes import FailedAt
from projectionist.runner.batch.times import USUAL

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.outbox.intents.intent import EmittedIntent
    from projectionist.runner.batch.consumer import Consumer
    from projectionist.runner.batch.planning import AggregatePlan
    from projectionist.runner.batch.retry_policy import Refusal
    from projectionist.runner.batch.writes import EventFailure
    from projectionist.runner.decoding.delivery import Delivery


_END = re.compile(
    r"(?:[\s;]|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
    r"(?:(?:commit|end|abort)\b|prepare\s+transaction\b|rollback\b(?!\s+(?:(?:work|transaction)\s+)?to\b))",
    re.IGNORECASE | re.DOTALL,
)
"""A statement that ends the transaction it stands in."""
_SETS = re.compile(
    r"(?:[\s;]|--[^\n]*(?:\n|$)|/\*.*?\*/)*(?:set|reset|discard)\b|.*\bset_config\s*\(",
    re.IGNORECASE | re.DOTALL,
)
"""A statement whose effect stays in the transaction, or in the session, for events of others."""


_STAY = (
    "would stay for the events of others; pass a value, say `at time zone`, or call a function that is created with"
    " `set … = …` of its own"
)


class HandlerTransaction:
    """The transaction as a handler sees it: `{table}` stands for the generation that is written.

    It cannot be ended from here: the batch would be half committed, and what follows it not at all together.
    """

    def __init__(self, connection: Connection, names: dict[str, str], idle_s: float) -> None:
        self._connection, self._idle_s = connection, idle_s
        self._names = names
        self._patience = anyio.CancelScope()

    async def execute(self, sql: str, *args: Any) -> str:
        """Run a statement; returns its command tag."""
        with self._used():
            if args:
                return await self._connection.execute(self._resolved(sql), *args)
            # Without arguments the driver would run several at once, of which only the first can be looked at.
            prepared = await self._connection.prepare(self._resolved(sql))
            await prepared.fetch()
            return prepared.get_statusmsg() or ""

    async def executemany(self, sql: str, args: Any) -> None:
        """Run a statement for each sequence of arguments."""
        with self._used():
            await self._connection.executemany(self._resolved(sql), args)

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        """Return all rows."""
        with self._used():
            return await self._connection.fetch(self._resolved(sql), *args)

    async def fetchrow(self, sql: str, *args: Any) -> Any:
        """Return the first row, if there is one."""
        with self._used():
            return await self._connection.fetchrow(self._resolved(sql), *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        """Return the first column of the first row."""
        with self._used():
            return await self._connection.fetchval(self._resolved(sql), *args)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time a handler; raise Unused once it has gone without a statement of the transaction for too long."""
        with anyio.CancelScope(deadline=anyio.current_time() + self._idle_s) as self._patience:
            yield
        if self._patience.cancelled_caught:
            raise Unused(
                f"the handler has made no use of its transaction for {self._idle_s:g} s, and has not returned"
            )

    @contextmanager
    def _used(self) -> Iterator[None]:
        """Time a statement, which PostgreSQL ends when it takes too long."""
        self._patience.deadline = inf
        try:
            yield
        finally:
            self._patience.deadline = anyio.current_time() + self._idle_s

    def _resolved(self, sql: str) -> str:
        if _END.match(sql):
            raise ValueError("a handler cannot end the transaction of its batch; an error undoes its event")
        if _SETS.match(sql):
            raise ValueError(f"a handler cannot change settings, which {_STAY}")
        return resolved(sql, self._names)


class Unused(Exception):
    """A handler neither goes on nor returns."""


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
        self._settings = Statements("projectionist.runner", schema)["select_write_settings"]
        self._path: str | None = None
        self._before: list[str] | None = None
        """Settings that handlers met when the last batch ended."""
        self._generation = 0
        self.at: str | None = None
        self._handlers = consumer.definition.cls()
        self._follow()

    def _follow(self) -> None:
        """Go on with the generation that is live in this batch: a swap may have come between it and the last."""
        if self._generation != self._consumer.generation:
            self._generation = self._consumer.generation
            tables = self._consumer.definition.tables
            names = sql_names(tables, self._schema, self._generation)
            self._tx = HandlerTransaction(self._connection, names, self._idle_s)

    async def fold(self, courses: Sequence[AggregatePlan], refusal: Refusal | None) -> FoldedBatch:
        """Run every handler; a failed one leaves nothing behind and stops its aggregate.

        What handlers have set is looked at once, at the end. If it is not as before, all is undone, and each is looked
        at: so the event that did it is the one that fails.
        """
        self._follow()
        self._path = self._path or await default_search_path(self._connection)
        try:
            async with self._connection.transaction(), default_names(self._connection, self._path):
                self._before = self._before or await self._seen()
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
        found: list[str] = await self._connection.fetchval(self._settings)
        return found

    async def _folded(
        self, courses: Sequence[AggregatePlan], refusal: Refusal | None, *, each: bool = False
    ) -> FoldedBatch:
        self.at = None
        broken = preset(courses, self._consumer.policy.retry, refusal)
        stopped: set[int] = set()
        intents: list[tuple[Delivery, EmittedIntent]] = []
        for index, (at, delivery) in enumerate(ordered(courses, broken)):
            step = step_of(self._consumer.definition, index, delivery)
            if step is None or at in stopped:
                continue
            self.at = delivery.aggregate or delivery.id
            failure = await self._run(step, delivery, intents, each=each)
            if failure is not None:
                stopped.add(at)
                broken[at] = FailedAt(courses[at].tried.index(delivery), failure)
        self.at = None
        return FoldedBatch(broken, intents, {}, frozenset(), [])

    async def write(self, folded: FoldedBatch) -> None:
        """Write nothing: the handlers have."""

    async def _run(
        self, step: Step, delivery: Delivery, intents: list[tuple[Delivery, EmittedIntent]], *, each: bool
    ) -> EventFailure | None:
        handler, retry = step.handler, self._consumer.policy.retry
        event = copied(step.event) if handler.copies else step.event
        try:
            async with self._connection.transaction():
                args = (self._handlers, self._tx, event)
                with self._tx.waiting():
                    result = (
                        await handler.call(*args, step.envelope())
                        if handler.envelope
                        else await handler.call(*args)
                    )
                answer = answer_of(result)
                if answer.delete:
                    raise TypeError("a SqlProjection has no row to delete: delete it by SQL")
                # After a failed statement this fails too, even if the handler has swallowed the error.
                await self._connection.execute("select")
                if each and await self._seen() != self._before:
                    raise ValueError(f"a handler has changed settings of the session, which {_STAY}")
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
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
        intents.extend((delivery, one) for one in answer.intents)
        return None

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
