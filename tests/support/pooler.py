"""A real pgbouncer before the session's PostgreSQL."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.support import debian
from tests.support.servers import Servers
from tests.support.waiting import HANG_S

from projectionist.ops.embedded import processes


@contextmanager
def pooler(servers: Servers, database: str, mode: str, **settings: str) -> Iterator[str]:
    """The URL of the same database behind a pgbouncer in this pool mode; `settings` are more lines of its file."""
    program, parts = debian.program("pgbouncer"), urlsplit(database)
    account = servers._servers.postgres.account
    folder = Path(tempfile.mkdtemp(prefix="pooler-", dir=servers._servers.home))
    try:
        port, file = processes.free_port(), folder / "pgbouncer.ini"
        target = f"host={parts.hostname} port={parts.port} user={parts.username} password={parts.password}"
        lines = {
            "listen_addr": processes.HOST,
            "listen_port": str(port),
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": mode,
        }
        lines |= settings
        text = [f"[databases]\n* = {target}\n[pgbouncer]"]
        text += [f"{name} = {value}" for name, value in lines.items()]
        file.write_text("\n".join(text) + "\n", "utf-8")
        account.own(folder)
        os.chown(file, account.uid, account.gid)
        found = ":".join(map(str, debian.libraries()))
        pid = processes.launch(
            [program, file],
            log=folder / "log",
            ready=lambda _: not processes.is_free(port),
            seconds=HANG_S,
            identity=account.identity(),
            environment={**os.environ, "LD_LIBRARY_PATH": found},
        )
        try:
            yield parts._replace(netloc=f"{parts.username}@{processes.HOST}:{port}").geturl()
        finally:
            processes.end(pid, str(file), (signal.SIGINT, signal.SIGKILL), seconds=10)
    finally:
        shutil.rmtree(folder)
