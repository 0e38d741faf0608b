"""Other processes of the same consumers: what a dead or frozen one holds is taken from it."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from projectionist.core.log_format import facts
from projectionist.core.postgres.error_class import is_transient
from projectionist.core.postgres.statements import Statements
from projectionist.core.task_groups import unwrap_single_exception
from projectionist.core.telemetry import instruments, metrics
from projectionist.core.testpoints import announce

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from asyncpg import Record
    from asyncpg.pool import PoolConnectionProxy

    Lend = Callable[[], AbstractAsyncContextManager[PoolConnectionProxy[Record]]]

log = logging.getLogger("projectionist.runner")

_ABOUT = facts(kind="dead_sessions")
SILENT_BEATS = 3
"""After so many missed heartbeats a process counts as dead or frozen."""
LOOK_EVERY_S = 0.2
POOL = "projectionist run"
"""Names the sessions that the consumers of a process share, before its instance."""


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

    async def terminate_transactions(self, tag: str) -> None:
        """End what processes that have fallen silent have open in sessions that a pooler lends, under names with this
        tag."""
        async with self._lend() as connection:
            about = self.silence_s, tag, self.silence_s / SILENT_BEATS
            _tell_ended(await connection.fetch(self._sql["terminate_silent_transactions"], *about))

    async def _watch(self, backend_pid: int) -> None:
        named: set[int] = set()
        while True:
            await anyio.sleep(LOOK_EVERY_S)
            try:
                async with self._lend() as connection:
                    # Whom it kept waiting may be through before this is answered: it is told all the same.
                    with anyio.CancelScope(shield=True):
                        _tell_ended(
                            await connection.fetch(
                                self._sql["terminate_blocking_dead_sessions"],
                                backend_pid,
                                self.silence_s,
                                POOL,
                            )
                        )
                    strangers = await connection.fetch(self._sql["select_foreign_blockers"], backend_pid)
            except Exception as error:  # noqa: BLE001  whoever waits goes on waiting, and is told why by its own session
                level = logging.DEBUG if is_transient(error) else logging.WARNING
                log.log(level, "what keeps others waiting cannot be looked at: %s", error, extra=_ABOUT)
                strangers = []
            for row in strangers:
                if row["pid"] not in named:
                    named.add(row["pid"])
                    _tell_stranger(row)


def _tell_ended(rows: Sequence[Record]) -> None:
    for row in rows:
        log.warning(
            "ended the session of process %d on %s, silent for %.1f s: it kept others waiting",
            row["pid"],
            row["host"],
            row["silent_s"],
        )
        metrics.add(instruments.RECLAIMED, 1)
        announce("peers.ended")


def _tell_stranger(row: Record) -> None:
    """Name a session that is not ours, and holds what we wait for: nobody but a person may end it."""
    log.warning(
        "session %d of role %s (%s), which is not ours, keeps us waiting for a lock; `doctor` names it too",
        row["pid"],
        row["role"],
        row["name"] or "without a name",
        extra=_ABOUT,
    )
    announce("peers.stranger")
