"""A PostgreSQL on the loopback interface. It has no Unix socket, so no path is too long for one."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import struct
import subprocess
from functools import cached_property
from pathlib import Path

from projectionist.core import own_files
from projectionist.core.project_servers import runs
from projectionist.ops.embedded import account as accounts
from projectionist.ops.embedded import binaries, places, processes
from projectionist.ops.embedded.account import SystemAccount, account_for
from projectionist.ops.embedded.binaries import POSTGRES_MAJOR
from projectionist.ops.embedded.errors import EmbeddedError, StartError

_SETTINGS = {
    "listen_addresses": processes.HOST,
    "unix_socket_directories": "",
    "dynamic_shared_memory_type": "mmap",  # containers have 64 MB in /dev/shm, which is soon used up
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_RISKY = {"fsync": "off", "full_page_writes": "off"}
"""For data that need not survive the machine. Commits survive the server: synchronous_commit stays on."""

_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
"""The one question that a PostgreSQL answers before it knows who asks."""


class PostgresServer:
    """The server of `home`. Its data lies in `home/postgres`, or in `state` if its account cannot get in."""

    name = "postgres"

    def __init__(self, home: Path, *, durable: bool, state: Path) -> None:
        self.log = home / "postgres.log"
        self._home = home
        self._durable = durable
        self._state = state
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}

    @cached_property
    def account(self) -> SystemAccount:
        """Return the account that runs it."""
        return account_for(self._home / "postgres")

    @cached_property
    def folder(self) -> Path:
        """Return where its data lies, or will lie."""
        return places.data(self._home, self.account, self._state)

    @cached_property
    def _programs(self) -> Path:
        return places.programs(self.account, self._state)

    def notes(self) -> list[str]:
        """Return what a user should know about where it all lies, because it is not where one would look."""
        away = {"data": self.folder, "programs": self._programs}
        expected = {"data": self._home, "programs": binaries.postgres_bin().parent}
        return [
            f"PostgreSQL's {what} are in {path}, because root may not run it and the account "
            f"{self.account.name}, which does, cannot reach {expected[what]}"
            for what, path in away.items()
            if not path.is_relative_to(expected[what])
        ]

    def url(self, port: int) -> str:
        """Return the URL of the server, should it listen on `port`; with the superuser's password."""
        password = own_files.read_own(self.folder / "projectionist.password").decode()
        return f"postgresql://postgres:{password}@{processes.HOST}:{port}/postgres"

    @property
    def mark(self) -> str:
        """Return an argument of the server's process that no other one has."""
        return str(self.folder)

    def pid(self) -> int:
        """Return the pid of the running server; 0 if it does not run."""
        pid = self._noted()[0]
        return pid if runs(pid, self.mark) else 0

    def prepare(self) -> list[str]:
        """See that data which is kept has an account of its own; what was done for it. Raises EmbeddedError."""
        if not self._durable:
            return []
        return accounts.ensure_own(
            (self._home / "postgres", places.outside(self._home, self._state) / "postgres")
        )

    def start(self, port: int) -> None:
        """Start on `port` and return when it takes connections; raises `StartError` if it will not."""
        for program in ("initdb", "postgres"):
            binaries.verify(self._programs / program, binaries.POSTGRES_WHEEL)
        self._initialise()
        settings = _SETTINGS | {"port": str(port)} | ({} if self._durable else _RISKY)
        command = [str(self._programs / "postgres"), "-D", str(self.folder)]
        command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        pid = self._noted()[0]
        # A stale note whose pid has passed to a stranger would stop PostgreSQL, unless it takes that for its
        # grandparent. Its other check stays in force: that no process is left on the old shared memory.
        grandparent = {} if runs(pid, str(self.folder)) else {"PG_GRANDPARENT_PID": str(pid)}
        if not processes.until(lambda: self._started(command, self._environment | grandparent), seconds=30):
            raise EmbeddedError(f"sessions of a killed PostgreSQL still hold the memory of {self.folder}")

    def ready(self, port: int) -> bool:
        """Return whether it takes connections on `port`."""
        return self._noted() == (self.pid(), "ready") and _answers(port)

    def stop(self) -> None:
        """Stop it if it runs: clients are disconnected, what is committed is written."""
        processes.end(self.pid(), str(self.folder), (signal.SIGINT, signal.SIGQUIT), seconds=20)

    def _started(self, command: list[str], environment: dict[str, str]) -> bool:
        """Start it in one attempt; return False while the sessions of a killed server still hold its memory."""
        try:
            processes.launch(
                command,
                log=self.log,
                ready=lambda pid: self._noted() == (pid, "ready"),
                seconds=60,
                identity=self.account.identity(),
                environment=environment,
            )
        except StartError as gone:
            if "is still in use" in gone.said:
                return False
            raise
        return True

    def _noted(self) -> tuple[int, str]:
        """Return what the server has noted in its data folder: its pid and its state; (0, "") without a note."""
        try:
            lines = own_files.read_own(self.folder / "postmaster.pid").decode().splitlines()
            return int(lines[0]), lines[7].strip() if len(lines) > 7 else ""
        except (OSError, ValueError, IndexError):
            return 0, ""

    def _initialise(self) -> None:
        """Make the data folder, in its place only once it is whole; what an interruption left is deleted."""
        if self.folder.exists() and any(self.folder.iterdir()):
            return self._check()
        places.make_public(self.folder.parent)
        part = self.folder.with_name(self.folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        self.account.own(part)
        password = part.with_name(self.folder.name + ".password")
        _write_secret(password, secrets.token_hex(16), self.account)
        command = [
            self._programs / "initdb",
            *("--pgdata", part, "--username", "postgres", "--encoding", "UTF8", "--no-locale"),
            *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
            *("--auth", "scram-sha-256", "--pwfile", password),
            # The password is 128 random bits: nothing to stretch, and each connection would pay for it.
            *("--set", "scram_iterations=1"),
            *(() if self._durable else ("--no-sync",)),
        ]
        try:
            processes.run(command, self.account.identity(), self._environment)
        except subprocess.CalledProcessError as problem:
            raise EmbeddedError(f"initdb failed: {problem.stderr.strip()}") from problem
        password.rename(part / "projectionist.password")
        if self.folder.exists():
            self.folder.rmdir()
        part.rename(self.folder)
        return None

    def _check(self) -> None:
        version = self.folder / "PG_VERSION"
        if not version.exists() or not (self.folder / "global" / "pg_control").exists():
            raise EmbeddedError(
                f"{self.folder} is not a whole PostgreSQL data folder",
                remedy="`projectionist dev reset` deletes it, and the next `dev up` makes a new one",
            )
        if (found := version.read_text("utf-8").strip()) != str(POSTGRES_MAJOR):
            raise EmbeddedError(
                f"{self.folder} was made by PostgreSQL {found}, and this is PostgreSQL {POSTGRES_MAJOR}",
                remedy="Dump it with the old version, or delete it with `projectionist dev reset`",
            )


def _write_secret(path: Path, secret: str, account: SystemAccount) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(secret)
    if account.lent:
        os.chown(path, account.uid, account.gid)


def _answers(port: int) -> bool:
    """Tell whether a PostgreSQL answers: one that was just killed holds its port for a moment, and says nothing."""
    try:
        with socket.create_connection((processes.HOST, port), timeout=1) as connection:
            connection.sendall(_SSL_REQUEST)
            return connection.recv(1) in {b"N", b"S"}
    except OSError:
        return False
