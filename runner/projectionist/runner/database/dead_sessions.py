"""Other processes of the same consumers: what a dead or frozen one holds is taken from it."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from projectionist.core.postgres.error_class import is_transient
from projectionist.core.postgres.statements import Statements
from projectionist.core.task_groups import unwrap_single_exception
from projectionist.core.telemetry import instruments, metrics
from projectionist.core.testpoints import announce

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from asyncpg import Record
    from asyncpg.pool import PoolConnectionProxy

    Lend = Callable[[], AbstractAsyncContextManager[PoolConnectionProxy[Record]]]

log = logging.getLogger("projectionist.runner")

SILENT_BEATS = 3
"""After so many missed heartbeats a process counts as dead or frozen."""
LOOK_EVERY_S = 0.2


class DeadSessions:
    """The sessions of other processes, seen over a connection that is lent."""

    def __init__(self, lend: Lend, schema: str, heartbeat_s: float) -> None:
        self._lend = lend
        self._sql = Statements("projectionist.runner", schema)
        self.silence_s = SILENT_BEATS * heartbeat_s

    @asynccontextmanager
    async def terminating_blockers(self, backend_pid: int) -> AsyncIterator[None]:
        """End sessions that keep this backend waiting inside, if their process has fallen silent.

        No timeout of PostgreSQL ends a session whose process was stopped in the middle of reading a result.
        """
        with unwrap_single_exception():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, backend_pid)
                yield
                tasks.cancel_scope.cancel()

    async def _watch(self, backend_pid: int) -> None:
        while True:
            await anyio.sleep(LOOK_EVERY_S)
            try:
                async with self._lend() as connection:
                    ended = await connection.fetch(
                        self._sql["terminate_blocking_dead_sessions"], backend_pid, self.silence_s
                    )
            except Exception as error:  # whoever waits is told of an outage by its own session
                if not is_transient(error):
                    raise
                ended = []
            for row in ended:
                log.warning(
                    "ended the session of process %d on %s, silent for %.1f s: it kept others waiting",
                    row["pid"],
                    row["host"],
                    row["silent_s"],
                )
                metrics.add(instruments.RECLAIMED, 1)
                announce("peers.ended")
