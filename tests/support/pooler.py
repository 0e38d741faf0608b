"""A real pgbouncer before the session's PostgreSQL."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.support import debian
from tests.support.servers import Servers
from tests.support.waiting import HANG_S

from projectionist.ops.embedded import processes


class Pooler:
    """A pgbouncer that a test may kill and start again, always at one address."""

    def __init__(
        self, servers: Servers, database: str, folder: Path, mode: str, settings: Mapping[str, str]
    ) -> None:
        parts = urlsplit(database)
        self._program = debian.program("pgbouncer")
        self._account, self._folder = servers._servers.postgres.account, folder
        self._port, self._file, self._pid = processes.free_port(), folder / "pgbouncer.ini", 0
        self.url = parts._replace(netloc=f"{parts.username}@{processes.HOST}:{self._port}").geturl()
        target = f"host={parts.hostname} port={parts.port} user={parts.username} password={parts.password}"
        lines = {
            "listen_addr": processes.HOST,
            "listen_port": str(self._port),
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": mode,
            **settings,
        }
        text = [f"[databases]\n* = {target}\n[pgbouncer]"]
        text += [f"{name} = {value}" for name, value in lines.items()]
        self._file.write_text("\n".join(text) + "\n", "utf-8")
        self._account.own(folder)
        os.chown(self._file, self._account.uid, self._account.gid)

    def start(self) -> None:
        """Return when it takes connections."""
        found = ":".join(map(str, debian.libraries()))
        self._pid = processes.launch(
            [self._program, self._file],
            log=self._folder / "log",
            ready=lambda _: not processes.is_free(self._port),
            seconds=HANG_S,
            identity=self._account.identity(),
            environment={**os.environ, "LD_LIBRARY_PATH": found},
        )

    def kill(self) -> None:
        """`kill -9`: every connection through it is lost."""
        processes.end(self._pid, str(self._file), (signal.SIGKILL,), seconds=10)

    def stop(self) -> None:
        """End it, if it runs."""
        processes.end(self._pid, str(self._file), (signal.SIGINT, signal.SIGKILL), seconds=10)


@contextmanager
def running_pooler(servers: Servers, database: str, mode: str, **settings: str) -> Iterator[Pooler]:
    """Run a pgbouncer in this pool mode before the database; `settings` are more lines of its file."""
    folder = Path(tempfile.mkdtemp(prefix="pooler-", dir=servers._servers.home))
    try:
        made = Pooler(servers, database, folder, mode, settings)
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder)


@contextmanager
def pooler(servers: Servers, database: str, mode: str, **settings: str) -> Iterator[str]:
    """The URL of the same database behind a pgbouncer in this pool mode; `settings` are more lines of its file."""
    with running_pooler(servers, database, mode, **settings) as made:
        yield made.url
