"""The transaction of a batch as a handler sees it: tables are placeholders, and its end is out of reach."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from projectionist.projections.tables.sql_tables import resolved
from projectionist.runner.batch.plain_statements import plain_target
from projectionist.runner.batch.statement_queue import MOST_ROWS, StatementQueue, fixed
from projectionist.runner.batch.unread_tag import UnreadTag

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection


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

_TOGETHER = re.compile(
    r"(?:[\s;]|--[^\n]*(?:\n|$)|/\*.*?\*/)*(?:select|insert|update|delete|merge|with|values|table)\b",
    re.IGNORECASE | re.DOTALL,
)
"""A statement that means the same in a savepoint of its event and in one of many: it names no savepoint, and leaves
nothing behind but rows."""
SILENT_SHARE = 0.25
"""After this share of the time that a handler may idle PostgreSQL hears a statement before the next handler."""
_MOST_KNOWN = 1_000
"""How many texts are kept with what is known of them: handlers that put values into theirs make as many as events."""

STAY = (
    "would stay for the events of others; pass a value, say `at time zone`, or call a function that is created with"
    " `set … = …` of its own"
)


class Statement(NamedTuple):
    """A text of a handler's, and what is known of it."""

    text: str
    """As PostgreSQL gets it."""
    is_shared: bool
    """Whether it may run in a savepoint of many events."""
    target: str | None
    """The only table that it is about, where it is plain."""


class HandlerHabits:
    """What handlers, by name, have shown that they need; all others' statements are put off and grouped."""

    def __init__(self) -> None:
        self.apart: set[str] = set()
        """They do what only a savepoint of their own event can undo."""
        self.at_once: set[str] = set()
        """They read what a statement answers."""
        self.in_waves: set[str] = set()
        """One statement of theirs would change a row twice for two events of one aggregate."""


class HandlerTransaction:
    """The transaction as a handler sees it: `{table}` stands for the generation that is written.

    It cannot be ended from here: the batch would be half committed, and what follows it not at all together.
    """

    def __init__(
        self, connection: Connection, names: dict[str, str], idle_s: float, habits: HandlerHabits
    ) -> None:
        self._connection, self._idle_s = connection, idle_s
        self._names, self._habits = names, habits
        self._known: dict[str, Statement] = {}
        self._queue = StatementQueue()
        self._patience = anyio.CancelScope()
        self._spoken = time.monotonic()
        self._doubted = False
        self._handler, self._place, self._apart, self._defers = "", 0, True, False
        self._task: asyncio.Task[Any] | None = None
        self.untied: frozenset[str] = frozenset()
        """Tables whose plain statements may change places with those of others."""
        self.failed: range | None = None
        """The places of events of whose put off statements one has failed."""
        self.has_deferred = False
        """Whether the handler that runs has had a statement put off."""

    def begin(self) -> None:
        """Make ready for the handlers of other events, whatever became of those before."""
        self._queue.take()
        self._doubted, self.failed = False, None
        self._task = asyncio.current_task()

    def enter(self, handler: str, place: int, *, apart: bool, defers: bool) -> None:
        """Make ready for the handler of the event at this place of its segment, or of one that is run apart."""
        self._handler, self._place, self._apart = handler, place, apart
        self._defers = defers and not (apart or handler in self._habits.at_once)
        self.has_deferred = False

    @property
    def is_void(self) -> bool:
        """Return whether what ran since `begin` has to be undone: it may have swallowed what it was told."""
        return self._doubted or self.failed is not None

    async def execute(self, sql: str, *args: Any) -> str:
        """Run a statement; returns its command tag."""
        if self._defers and args and await self._deferred(sql, [args]):
            return UnreadTag(partial(self._doubt, self._handler, self._habits.at_once))  # type: ignore[return-value] # whoever finds that it is no text is called again
        with self._used():
            await self.flush()
            if args:
                return await self._connection.execute(self._resolved(sql).text, *args)
            # Without arguments the driver would run several at once, of which only the first can be looked at.
            prepared = await self._connection.prepare(self._resolved(sql).text)
            await prepared.fetch()
            return prepared.get_statusmsg() or ""

    async def executemany(self, sql: str, args: Any) -> None:
        """Run a statement for each sequence of arguments."""
        if self._defers:
            args = list(args)
            if await self._deferred(sql, args):
                return
        with self._used():
            await self.flush()
            await self._connection.executemany(self._resolved(sql).text, args)

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        """Return all rows."""
        with self._used():
            await self.flush()
            return await self._connection.fetch(self._resolved(sql).text, *args)

    async def fetchrow(self, sql: str, *args: Any) -> Any:
        """Return the first row, if there is one."""
        with self._used():
            await self.flush()
            return await self._connection.fetchrow(self._resolved(sql).text, *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        """Return the first column of the first row."""
        with self._used():
            await self.flush()
            return await self._connection.fetchval(self._resolved(sql).text, *args)

    async def flush(self) -> None:
        """Run what was put off, equal statements at once."""
        for one in self._queue.take():
            try:
                if len(one.rows) == 1:
                    await self._connection.execute(one.text, *one.rows[0])
                else:
                    await self._connection.executemany(one.text, one.rows)
            except BaseException:  # it stays so, even if a handler swallows this and goes on
                self.failed = self.failed or range(one.first, one.last + 1)
                raise

    async def speak(self) -> None:
        """Let PostgreSQL, which ends sessions that idle, know of this one where handlers have run no statement."""
        if self._is_silent():
            with self._used():
                await self.flush()
                await self._connection.execute("select")

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
            self._spoken = time.monotonic()

    def _is_silent(self) -> bool:
        return time.monotonic() - self._spoken > self._idle_s * SILENT_SHARE

    async def _deferred(self, sql: str, rows: Sequence[Sequence[Any]]) -> bool:
        """Put a statement off; False where it has to run now, since its arguments may be changed."""
        if asyncio.current_task() is not self._task:
            # On one connection statements that overlap are an error, which grouping must not hide.
            self._doubt(self._handler, self._habits.apart)
            raise CallAgain
        kept = [fixed(row) for row in rows]
        if None in kept:
            return False
        known, self.has_deferred = self._resolved(sql), True
        target = known.target if known.target in self.untied else None
        self._queue.put(known.text, target, [row for row in kept if row is not None], self._place)
        if self._queue.size >= MOST_ROWS or self._is_silent():
            with self._used():
                await self.flush()
        return True

    def _doubt(self, handler: str, habit: set[str]) -> None:
        """Have a handler called again, whatever it makes of what it is told."""
        habit.add(handler)
        self._doubted = True

    def _resolved(self, sql: str) -> Statement:
        known = self._known.get(sql) or self._judged(sql)
        if not (known.is_shared or self._apart):
            self._doubt(self._handler, self._habits.apart)
            raise CallAgain
        return known

    def _judged(self, sql: str) -> Statement:
        if _END.match(sql):
            raise ValueError("a handler cannot end the transaction of its batch; an error undoes its event")
        if _SETS.match(sql):
            raise ValueError(f"a handler cannot change settings, which {STAY}")
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        shared = _TOGETHER.match(sql) is not None
        self._known[sql] = judged = Statement(resolved(sql, self._names), shared, plain_target(sql))
        return judged


class Unused(Exception):
    """A handler neither goes on nor returns."""


class CallAgain(BaseException):
    """A handler is to be called again, in another way. No error of its event, so that none is caught."""
