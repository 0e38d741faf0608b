"""A second PostgreSQL that follows the session's, until it is cut off or takes its place."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
from tests.support.servers import Servers
from tests.support.waiting import eventually

from projectionist.ops.embedded import processes
from projectionist.ops.embedded.postgres import _SETTINGS


class Standby:
    """Its server takes reads from the beginning, and writes once it is promoted."""

    def __init__(self, servers: Servers, port: int) -> None:
        self._servers = servers
        self._port = port

    def url(self, primary: str) -> str:
        """Return where the database of this URL is found on the standby."""
        parts = urlsplit(primary)
        netloc = f"{parts.netloc.rpartition('@')[0]}@{processes.HOST}:{self._port}"
        return parts._replace(netloc=netloc).geturl()

    async def caught_up(self) -> None:
        """Return when it has all that the primary has now."""
        primary = await asyncpg.connect(self._servers.postgres_url)
        here = await asyncpg.connect(self.url(self._servers.postgres_url))
        try:
            end = await primary.fetchval("select pg_current_wal_lsn()::text")

            async def replayed() -> bool:
                return bool(await here.fetchval("select pg_last_wal_replay_lsn() >= $1::text::pg_lsn", end))

            await eventually(replayed)
        finally:
            await here.close()
            await primary.close()

    async def configured(self, *settings: str) -> None:
        """Change its settings."""
        here = await asyncpg.connect(self.url(self._servers.postgres_url))
        try:
            for setting in settings:
                await here.execute(f"alter system set {setting}")
            await here.execute("select pg_reload_conf()")
        finally:
            await here.close()

    async def told(self) -> None:
        """Return when it has told the primary of the snapshots that there are now."""
        primary = await asyncpg.connect(self._servers.postgres_url)
        try:
            asked = await primary.fetchval("select clock_timestamp()")

            async def heard() -> bool:
                found = await primary.fetchval(
                    "select bool_or(backend_xmin is not null and reply_time > $1) from pg_stat_replication",
                    asked,
                )
                return bool(found)

            await eventually(heard)
        finally:
            await primary.close()

    async def cut_off(self) -> None:
        """Have nothing more arrive from the primary."""
        here = await asyncpg.connect(self.url(self._servers.postgres_url))
        try:
            await here.execute("alter system set primary_conninfo = ''")
            await here.execute("select pg_reload_conf()")

            async def alone() -> bool:
                return not await here.fetchval("select exists (select from pg_stat_wal_receiver)")

            await eventually(alone)
        finally:
            await here.close()

    async def promote(self) -> None:
        """Let it take writes, on a timeline of its own."""
        here = await asyncpg.connect(self.url(self._servers.postgres_url))
        try:
            assert await here.fetchval("select pg_promote()")
        finally:
            await here.close()


@contextmanager
def standby(servers: Servers) -> Iterator[Standby]:
    """A standby of the session's PostgreSQL, running."""
    server, parts = servers._servers.postgres, urlsplit(servers.postgres_url)
    folder = Path(tempfile.mkdtemp(prefix="standby-", dir=servers._servers.home))
    server.account.own(folder)
    environment = {**server._environment, "PGPASSWORD": str(parts.password)}
    source = ("-h", processes.HOST, "-p", str(parts.port), "-U", "postgres")
    data, identity = folder / "data", server.account.identity()
    copy = (server._programs / "pg_basebackup", *source, "-D", data, "-R", "--checkpoint=fast", "--no-sync")
    try:
        processes.run(copy, identity, environment)
        port, note = processes.free_port(), data / "postmaster.pid"
        settings = _SETTINGS | {"port": str(port), "fsync": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        pid = processes.launch(
            [server._programs / "postgres", "-D", data, *options],
            log=folder / "log",
            ready=lambda _: note.exists() and "ready" in note.read_text("utf-8").split(),
            seconds=60,
            identity=identity,
            environment=environment,
        )
        try:
            yield Standby(servers, port)
        finally:
            processes.end(pid, str(data), (signal.SIGINT, signal.SIGQUIT), seconds=20)
    finally:
        shutil.rmtree(folder)
