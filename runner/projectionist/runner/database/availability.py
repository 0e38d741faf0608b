"""What all consumers of a process have to get through to PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import asyncpg

from projectionist.core.gate import Gate, postgres_reach

T = TypeVar("T")

_WHOLE_SERVER = ("53", "58", "25006")
"""Out of connections, memory or disk, failing disks, read-only: whoever tries next meets the same."""


class Gates:
    """Holds back what a process has to get through: to PostgreSQL at all, then past what it refuses to everybody."""

    def __init__(self) -> None:
        self.reach = postgres_reach()
        self.use = Gate("postgres.use", "PostgreSQL takes no writes", "PostgreSQL takes writes")
        self._one = anyio.Lock()
        self._batch_failed = False

    @property
    def closed(self) -> bool:
        """Return whether one of them is, and so everybody has been told."""
        return self.reach.closed or self.use.closed

    async def connect(self, make: Callable[[], Awaitable[T]]) -> T:
        """Open a connection by `make`, one after the other in this process."""
        async with self._one:
            return await self.reach.attempt(make)

    def refused(self, error: BaseException, *, beat: bool = False) -> bool:
        """Close the gate if this error of a statement means that the server refuses everybody; whether it does."""
        state = error.sqlstate if isinstance(error, asyncpg.PostgresError) else None
        if state is None or not state.startswith(_WHOLE_SERVER):
            return False
        self._batch_failed = self._batch_failed or not beat
        self.use.failed(error)
        return True

    def wrote(self, *, beat: bool = False) -> None:
        """Open the gate: a batch was committed, or a heartbeat and no batch has failed.

        On a full disk a row is still replaced where another is appended no more: a heartbeat proves nothing then.
        """
        if beat and self._batch_failed:
            self.use.probe_now()
        else:
            self._batch_failed = False
            self.use.record_success()
