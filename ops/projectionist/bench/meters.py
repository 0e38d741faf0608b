"""What the servers use while something is measured: processor time of their processes, WAL, statements."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import msgspec

if TYPE_CHECKING:
    from projectionist.core.postgres.connections import Connection
    from projectionist.ops.embedded import Embedded

_PROC = Path("/proc")
_KNOWN = _PROC.is_dir()
_TICKS = os.sysconf("SC_CLK_TCK")
_SETTLE_S = 0.2
"""How long the servers are given to finish what a contender has left them to do."""
_LOGGED = (b" LOG:  execute ", b" LOG:  statement: ")
OURS = "projectionist bench"


class Used(msgspec.Struct, frozen=True):
    """Totals since the servers began, or the difference of two. None where it cannot be known."""

    postgres_cpu_s: float | None
    nats_cpu_s: float | None
    wal_bytes: int

    def since(self, before: Used) -> Used:
        """Return what was used after `before` was read."""
        return Used(
            _less(self.postgres_cpu_s, before.postgres_cpu_s),
            _less(self.nats_cpu_s, before.nats_cpu_s),
            self.wal_bytes - before.wal_bytes,
        )


def _less(now: float | None, before: float | None) -> float | None:
    return None if now is None or before is None else now - before


class Meter:
    """Reads what the servers have used; the processor time only of servers that the benchmark has started."""

    def __init__(self, connection: Connection, embedded: Embedded | None) -> None:
        self._connection = connection
        self._embedded = embedded

    async def read(self) -> Used:
        """Return the totals now."""
        wal = await self._connection.fetchval("select pg_current_wal_lsn() - '0/0'::pg_lsn")
        if self._embedded is None or not _KNOWN:
            return Used(None, None, int(wal))
        postgres, nats = self._embedded.postgres.pid(), self._embedded.nats.pid()
        return Used(family_s(postgres), family_s(nats), int(wal))

    @asynccontextmanager
    async def over(self, tell: Callable[[Used], None]) -> AsyncIterator[None]:
        """Tell what the block has used."""
        before = await self.read()
        yield
        await asyncio.sleep(_SETTLE_S)
        tell((await self.read()).since(before))

    @asynccontextmanager
    async def statements(self, tell: Callable[[int], None]) -> AsyncIterator[bool]:
        """Tell how many statements others than the benchmark ran in the block; whether that can be known.

        The server logs each one meanwhile, so nothing else is to be measured at the same time.
        """
        if self._embedded is None:
            yield False
            return
        log = self._embedded.postgres.log
        run = self._connection.execute
        try:
            await run("alter system set log_statement = 'all'")
        except asyncpg.InsufficientPrivilegeError:
            yield False
            return
        try:
            await run("alter system set log_line_prefix = '%a '")
            await run("select pg_reload_conf()")
            await asyncio.sleep(_SETTLE_S)
            begin = log.stat().st_size
            yield True
            with log.open("rb") as lines:
                lines.seek(begin)
                tell(sum(1 for line in lines if _is_statement(line)))
        finally:
            await run("alter system reset log_statement")
            await run("alter system reset log_line_prefix")
            await run("select pg_reload_conf()")


def _is_statement(line: bytes) -> bool:
    return any(mark in line for mark in _LOGGED) and not line.startswith(f"{OURS} LOG:".encode())


def family_s(pid: int) -> float:
    """Return processor seconds of a process and of its children, those that have ended too; 0 where it is not told."""
    if not _KNOWN:
        return 0.0
    own, ended, _ = _times(pid)
    total = own + ended
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            child, _, parent = _times(int(entry.name))
            total += child if parent == pid else 0
    return total / _TICKS


def _times(pid: int) -> tuple[int, int, int]:
    """Return ticks of the process, ticks of its ended children, its parent."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:  # it has gone
        return 0, 0, 0
    user, system, user_ended, system_ended = map(int, fields[11:15])
    return user + system, user_ended + system_ended, int(fields[1])
