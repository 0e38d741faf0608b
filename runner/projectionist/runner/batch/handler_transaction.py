"""The transaction of a batch as a handler sees it: tables are placeholders, and its end is out of reach."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Any

import anyio

from projectionist.projections.tables.sql_tables import resolved

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


class HandlerTransaction:
    """The transaction as a handler sees it: `{table}` stands for the generation that is written.

    It cannot be ended from here: the batch would be half committed, and what follows it not at all together.
    """

    apart = False
    """Whether the event whose handler runs has a savepoint of its own."""
    doubtful = False
    """Whether a handler has asked for what it may do only there. It may have swallowed what it was told."""

    def __init__(self, connection: Connection, names: dict[str, str], idle_s: float) -> None:
        self._connection, self._idle_s = connection, idle_s
        self._names = names
        self._known: dict[str, tuple[str, bool]] = {}
        """Texts as PostgreSQL gets them, and whether they may run in a savepoint of many events."""
        self._patience = anyio.CancelScope()
        self._spoken = time.monotonic()

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

    async def speak(self) -> None:
        """Let PostgreSQL, which ends sessions that idle, know of this one where handlers have run no statement."""
        if time.monotonic() - self._spoken > self._idle_s * SILENT_SHARE:
            with self._used():
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

    def _resolved(self, sql: str) -> str:
        text, together = self._known.get(sql) or self._judged(sql)
        if not (together or self.apart):
            self.doubtful = True
            raise RunApart
        return text

    def _judged(self, sql: str) -> tuple[str, bool]:
        if _END.match(sql):
            raise ValueError("a handler cannot end the transaction of its batch; an error undoes its event")
        if _SETS.match(sql):
            raise ValueError(f"a handler cannot change settings, which {STAY}")
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[sql] = judged = resolved(sql, self._names), _TOGETHER.match(sql) is not None
        return judged


class Unused(Exception):
    """A handler neither goes on nor returns."""


class RunApart(BaseException):
    """A handler is to be called again, in a savepoint of its own. No error of its event, so that none is caught."""
